import { createHash } from 'node:crypto'
import type { ToolLog } from '../log.ts'
import { originKey, serverTitle, type McpToolOrigin } from '../tool-source.ts'

/** Limit of model providers: 1 to 64 characters of `A-Z a-z 0-9 _ -`. */
const MAX_LENGTH = 64
const SUFFIX_LENGTH = 9 // `_` and 8 hex digits

/**
 * Returns the names that a model sees, in the order of `origins`: unique, with at most 64 characters of
 * `[A-Za-z0-9_-]`. A later tool of the same name gets a suffix. Names depend only on the tools and their order,
 * so that a stored conversation stays valid in the next process.
 */
export function nameTools(
  origins: readonly McpToolOrigin[],
  hasPrefix: boolean,
  log: ToolLog,
): string[] {
  const owners = new Map<string, McpToolOrigin>()
  return origins.map((origin) => {
    const wanted = wantedName(origin, hasPrefix)
    const plain = wanted.length <= MAX_LENGTH ? wanted : withSuffix(wanted, hash(origin, 0))
    const owner = owners.get(plain)
    let name = plain
    // A server may list the same tool twice, and a plain name may look like one with a suffix.
    for (let salt = 0; owners.has(name); salt++) name = withSuffix(wanted, hash(origin, salt))
    owners.set(name, origin)
    if (owner !== undefined) {
      log({
        level: 'warning',
        code: 'NAME_COLLISION',
        message: `Tool "${origin.toolName}" of MCP server "${serverTitle(origin.server)}" is called "${name}": "${plain}" is taken by server "${serverTitle(owner.server)}"`,
        server: serverTitle(origin.server),
        tool: origin.toolName,
      })
    }
    return name
  })
}

/** Returns the name without other tools and without a limit. */
function wantedName(origin: McpToolOrigin, hasPrefix: boolean): string {
  const clean = sanitized(origin.toolName)
  const own = clean === '' ? `tool_${hash(origin, 0)}` : clean
  const prefix = hasPrefix ? sanitized(serverTitle(origin.server)) : ''
  return prefix === '' ? own : `${prefix}_${own}`
}

function sanitized(name: string): string {
  return name.replaceAll(/\s+/g, '_').replaceAll(/[^A-Za-z0-9_-]/g, '')
}

function withSuffix(name: string, suffix: string): string {
  return `${name.slice(0, MAX_LENGTH - SUFFIX_LENGTH)}_${suffix}`
}

function hash(origin: McpToolOrigin, salt: number): string {
  const text = salt === 0 ? originKey(origin) : `${originKey(origin)}#${salt}`
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}
