import { canonicalJson } from '@x/internal'
import { createHash } from 'node:crypto'
import { McpToolError } from '../base/errors.ts'
import {
  originKey,
  serverTitle,
  type McpToolOrigin,
  type McpToolSource,
  type ToolDefinition,
} from '../base/tool-source.ts'
import type { ToolInterceptor } from './interceptors.ts'

/** Hashes of definitions, by server (its slug, else its name) and the name on the wire. Fit for a file beside the code. */
export type PinnedTools = Readonly<Record<string, Readonly<Record<string, string>>>>

/** What of a definition a model or this package goes by. `_meta` is not: servers put there what changes with each list. */
const PINNED_PARTS = [
  'name',
  'title',
  'description',
  'inputSchema',
  'outputSchema',
  'annotations',
] as const

/**
 * Of how many tools of one server, for one principal, the first sight is kept: one that lists others each
 * time would grow without bound. What goes beyond is refused; to forget an old one would let it be redefined.
 */
const MAX_FIRST = 10_000

/** SHA-256 of what a tool is to a model, in hex. Equal for equal definitions, in whatever order their keys came. */
export function toolDefinitionHash(definition: ToolDefinition): string {
  const parts = Object.fromEntries(PINNED_PARTS.map((part) => [part, definition[part]]))
  return createHash('sha256').update(canonicalJson(parts)).digest('hex')
}

/** Pins for these tools as they are now: what `pin` takes. */
export function pinnedToolsFrom(
  tools: readonly { readonly origin: McpToolOrigin; readonly definition: ToolDefinition }[],
): PinnedTools {
  const servers = new Map<string, Record<string, string>>()
  for (const { origin, definition } of tools) {
    const title = serverTitle(origin.server)
    const known = servers.get(title)
    const entry = { [origin.toolName]: toolDefinitionHash(definition) }
    servers.set(title, { ...known, ...entry })
  }
  return Object.fromEntries(servers)
}

/** Which definitions are the ones that somebody agreed to. */
export class ToolPins {
  readonly #pinned: PinnedTools | undefined
  /** By principal and origin: with `'first-use'`, the hash of what was seen first. */
  readonly #first = new Map<string, string>()
  /** How many of them there are, by principal and server. */
  readonly #counts = new Map<string, number>()
  /** By hash: what thousands of principals see is kept once. */
  readonly #definitions = new Map<string, ToolDefinition>()

  constructor(pin: 'first-use' | PinnedTools) {
    this.#pinned = pin === 'first-use' ? undefined : pin
  }

  /** What of a definition is not as it was pinned, in words; `undefined` if it all is. Pins what it sees first. */
  redefinition(
    origin: McpToolOrigin,
    definition: ToolDefinition,
    principal?: string,
  ): string | undefined {
    if (this.#pinned !== undefined) return unlikeHash(this.#pinned, origin, definition)
    const key = JSON.stringify([principal ?? null, originKey(origin)])
    const first = this.#definitions.get(this.#first.get(key) ?? '')
    if (first !== undefined) return unlikeFirst(first, definition)
    const { slug, name, folderPath } = origin.server
    const place = JSON.stringify([principal ?? null, folderPath ?? null, slug ?? name ?? null])
    const count = this.#counts.get(place) ?? 0
    if (count >= MAX_FIRST) return `its server has had ${MAX_FIRST} other tools before`
    this.#counts.set(place, count + 1)
    const hash = toolDefinitionHash(definition)
    this.#first.set(key, hash)
    if (!this.#definitions.has(hash)) {
      this.#definitions.set(hash, structuredClone(partsOf(definition)))
    }
    return undefined
  }
}

/** Refuses a call of a tool whose definition is no longer the pinned one. Asks the server only where its list may have changed. */
export function pinInterceptor(pins: ToolPins, source: McpToolSource): ToolInterceptor {
  return async function pinned({ server, tool, config }, next) {
    const origin = { server, toolName: tool.name }
    const tools = await source.listTools({ config })
    const live = tools.find(({ name }) => name === tool.name)
    const principal = source.principalOf?.(config)
    // One that is gone is for the server to refuse.
    const changed = live === undefined ? undefined : pins.redefinition(origin, live, principal)
    if (changed === undefined) return next()
    throw new McpToolError('TOOL_REDEFINED', redefinedText(origin, changed), {
      server,
      toolName: tool.name,
      category: 'user',
      outcome: 'not-executed',
    })
  }
}

/** For models and people alike. The new words of the server are not in it: they may be what is wrong. */
export function redefinedText({ server, toolName }: McpToolOrigin, changed: string): string {
  return `MCP tool "${toolName}" of server "${serverTitle(server)}" is not the one that was agreed to: ${changed}. It was not executed. Do not call it again; somebody has to look at the new definition and pin it.`
}

function unlikeHash(
  pinned: PinnedTools,
  { server, toolName }: McpToolOrigin,
  definition: ToolDefinition,
): string | undefined {
  const title = serverTitle(server)
  if (!Object.hasOwn(pinned, title)) return undefined
  const hashes = pinned[title] ?? {}
  const expected = Object.hasOwn(hashes, toolName) ? hashes[toolName] : undefined
  if (expected === undefined) return 'there is no pin for it'
  const actual = toolDefinitionHash(definition)
  return actual === expected ? undefined : `its hash is ${actual}, and ${expected} was pinned`
}

function unlikeFirst(first: ToolDefinition, now: ToolDefinition): string | undefined {
  const changed = PINNED_PARTS.filter(
    (part) => canonicalJson(first[part]) !== canonicalJson(now[part]),
  )
  return changed.length === 0 ? undefined : `${changed.join(', ')} changed`
}

function partsOf(definition: ToolDefinition): ToolDefinition {
  const { name } = definition
  return { ...Object.fromEntries(PINNED_PARTS.map((part) => [part, definition[part]])), name }
}
