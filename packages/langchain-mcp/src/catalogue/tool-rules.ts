import type { McpServerLabel } from '../tool-origin.ts'
import type { ToolDefinition } from './tool-source.ts'

/**
 * Names tools by server (its slug or its name: either will do) and by the name on the wire. In a string, `*` stands for
 * any text, and all else for itself; a regular expression need only match a part. Without a server it is
 * any of them, without a tool it is all of its tools.
 */
export type ToolRule =
  | string
  | RegExp
  | { readonly server: string | RegExp; readonly tool?: string | RegExp | undefined }

/** Which tools there are. `deny` is the stronger one. */
export interface ToolRules {
  /** Only these tools; none where the list is empty. @default all */
  readonly allow?: readonly ToolRule[] | undefined
  /** Not these. @default none */
  readonly deny?: readonly ToolRule[] | undefined
}

export function isAllowed(
  { allow, deny = [] }: ToolRules,
  server: McpServerLabel,
  { name }: ToolDefinition,
): boolean {
  const fits = (rule: ToolRule): boolean => matches(rule, server, name)
  return !deny.some(fits) && (allow === undefined || allow.some(fits))
}

/** Either of its names will do: the one in the config must not be safer to write than the slug, or the other way round. */
export function isOfServer(pattern: string | RegExp, { slug, name }: McpServerLabel): boolean {
  return [slug, name].some((one) => one !== undefined && fitsName(pattern, one))
}

function matches(rule: ToolRule, label: McpServerLabel, toolName: string): boolean {
  if (typeof rule === 'string' || rule instanceof RegExp) return fitsName(rule, toolName)
  const { server, tool } = rule
  return isOfServer(server, label) && (tool === undefined || fitsName(tool, toolName))
}

function fitsName(pattern: string | RegExp, name: string): boolean {
  // search() starts anew each time; test() would go on where a global expression stopped.
  if (pattern instanceof RegExp) return name.search(pattern) !== -1
  const parts = pattern.split('*')
  const [head = '', ...others] = parts
  const tail = others.pop()
  if (tail === undefined) return name === head
  if (!name.startsWith(head) || name.length < head.length + tail.length) return false
  let rest = name.slice(head.length, name.length - tail.length)
  if (!name.endsWith(tail)) return false
  for (const part of others) {
    const at = rest.indexOf(part)
    if (at === -1) return false
    rest = rest.slice(at + part.length)
  }
  return true
}
