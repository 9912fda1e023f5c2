import { createHash } from 'node:crypto'
import { McpToolError } from '../base/errors.ts'
import type { ToolLog } from '../base/log.ts'
import {
  originKey,
  serverTitle,
  type McpServerLabel,
  type McpToolOrigin,
} from '../base/tool-source.ts'

/** Limit of model providers: 1 to 64 characters of `A-Z a-z 0-9 _ -`. */
const MAX_LENGTH = 64
const SUFFIX_LENGTH = 9 // `_` and 8 hex digits

/**
 * The new name of a tool whose name is already used: with a hash suffix, with the server's name as prefix
 * (and a suffix if needed), or an error for the whole set of tools.
 */
export type OnNameCollision = 'suffix' | 'prefix-server' | 'throw'

/** Prefix of the names of a server's tools: its own name, or the result of a function. */
export type PrefixToolNames = boolean | ((server: McpServerLabel) => string | undefined)

export interface NameToolsOptions {
  /** The new name of a tool whose name is already used. @default 'suffix' */
  readonly onNameCollision?: OnNameCollision | undefined
  /**
   * Prefix of all tool names of a server, followed by `_`: `true` for the server's own name, or a function
   * that returns the prefix. @default false
   */
  readonly prefixToolNames?: PrefixToolNames | undefined
}

/**
 * Returns the names that a model sees, in the order of `origins`: unique, with at most 64 characters of
 * `[A-Za-z0-9_-]`. They depend only on the tools and their order, so that a stored conversation stays valid
 * in the next process.
 *
 * @throws {McpToolError} `NAME_COLLISION` with `onNameCollision: 'throw'`
 */
export function nameTools(
  origins: readonly McpToolOrigin[],
  options: NameToolsOptions,
  log: ToolLog,
): string[] {
  const { onNameCollision = 'suffix', prefixToolNames = false } = options
  const owners = new Map<string, McpToolOrigin>()
  return origins.map((origin) => {
    const wanted = wantedName(origin, prefixToolNames)
    const plain = wanted.length <= MAX_LENGTH ? wanted : withSuffix(wanted, hash(origin, 0))
    const owner = owners.get(plain)
    const name =
      owner === undefined
        ? plain
        : otherName(origin, { wanted, owner, taken: owners, onNameCollision })
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
function wantedName(origin: McpToolOrigin, prefixToolNames: PrefixToolNames): string {
  const { server, toolName } = origin
  const clean = sanitized(toolName)
  const own = clean === '' ? `tool_${hash(origin, 0)}` : clean
  const given = prefixToolNames === true ? serverTitle(server) : undefined
  const prefix = typeof prefixToolNames === 'function' ? prefixToolNames(server) : given
  const cleanPrefix = sanitized(prefix ?? '')
  return cleanPrefix === '' ? own : `${cleanPrefix}_${own}`
}

interface Collision {
  readonly wanted: string
  readonly owner: McpToolOrigin
  readonly taken: ReadonlyMap<string, McpToolOrigin>
  readonly onNameCollision: OnNameCollision
}

function otherName(origin: McpToolOrigin, collision: Collision): string {
  const { wanted, owner, taken, onNameCollision } = collision
  const { server, toolName } = origin
  if (onNameCollision === 'throw') {
    throw new McpToolError(
      'NAME_COLLISION',
      `Tool "${toolName}" of MCP server "${serverTitle(server)}" has the same name as "${owner.toolName}" of server "${serverTitle(owner.server)}". Disable one of them, or set onNameCollision to 'suffix' or 'prefix-server'.`,
      { server, toolName, category: 'user' },
    )
  }
  let base = wanted
  if (onNameCollision === 'prefix-server') {
    base = sanitized(`${serverTitle(server)}_${toolName}`)
    if (base.length <= MAX_LENGTH && !taken.has(base)) return base
  }
  // A server may list the same tool twice, and a plain name may look like one with a suffix.
  for (let salt = 0; ; salt++) {
    const name = withSuffix(base, hash(origin, salt))
    if (!taken.has(name)) return name
  }
}

const CLEAN = /^[A-Za-z0-9_-]*$/

function sanitized(name: string): string {
  if (CLEAN.test(name)) return name // most names
  return name.replaceAll(/\s+/g, '_').replaceAll(/[^A-Za-z0-9_-]/g, '')
}

function withSuffix(name: string, suffix: string): string {
  return `${name.slice(0, MAX_LENGTH - SUFFIX_LENGTH)}_${suffix}`
}

function hash(origin: McpToolOrigin, salt: number): string {
  const text = salt === 0 ? originKey(origin) : `${originKey(origin)}#${salt}`
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}
