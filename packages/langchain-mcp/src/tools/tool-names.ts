import { createHash } from 'node:crypto'
import type { ToolLog } from '../log.ts'
import { originKey, serverTitle, type McpToolOrigin } from '../tool-source.ts'

/** Limit of model providers: 1 to 64 characters of `A-Z a-z 0-9 _ -`. */
const MAX_LENGTH = 64
const SUFFIX_LENGTH = 9 // `_` and 8 hex digits

/**
 * Returns the names that a model sees, in the order of `origins`: unique, with at most 64 characters of
 * `[A-Za-z0-9_-]` that begin with a letter. A later tool of the same name gets a suffix, and a warning for each two
 * servers says so. Names depend only on the tools and their order, so that a stored conversation stays valid in the next
 * process.
 */
export function nameTools(
  origins: readonly McpToolOrigin[],
  hasPrefix: boolean,
  log: ToolLog,
): string[] {
  const owners = new Map<string, McpToolOrigin>()
  const renamed: RenamedTool[] = []
  const names = origins.map((origin) => {
    const wanted = wantedName(origin, hasPrefix)
    const plain = wanted.length <= MAX_LENGTH ? wanted : withSuffix(wanted, hash(origin, 0))
    const owner = owners.get(plain)
    let name = plain
    // A server may list the same tool twice, and a plain name may look like one with a suffix.
    for (let salt = 0; owners.has(name); salt++) name = withSuffix(wanted, hash(origin, salt))
    owners.set(name, origin)
    if (owner !== undefined) renamed.push({ origin, owner, plain, name })
    return name
  })
  const pairs = Map.groupBy(renamed, ({ origin, owner }) =>
    JSON.stringify([serverKey(origin), serverKey(owner)]),
  )
  for (const tools of pairs.values()) warnOf(tools, hasPrefix, log)
  return names
}

/** A tool whose name an earlier tool has. */
interface RenamedTool {
  readonly origin: McpToolOrigin
  readonly owner: McpToolOrigin
  /** The name of both tools. */
  readonly plain: string
  readonly name: string
}

/** Number of names in a warning. */
const MAX_EXAMPLES = 3

/** Logs one warning for the tools of a server whose names another server has. */
function warnOf(tools: readonly RenamedTool[], hasPrefix: boolean, log: ToolLog): void {
  const [first] = tools
  if (first === undefined) return
  const { origin, owner } = first
  const [server, other] = [serverTitle(origin.server), serverTitle(owner.server)]
  const examples = tools
    .slice(0, MAX_EXAMPLES)
    .map(({ plain, name }) => `"${plain}" is now "${name}"`)
  const more = tools.length > MAX_EXAMPLES ? `, and ${tools.length - MAX_EXAMPLES} more` : ''
  const isHelped = !hasPrefix && serverKey(origin) !== serverKey(owner)
  log({
    level: 'warning',
    code: 'NAME_COLLISION',
    message: `Renamed ${tools.length} of the tools of MCP server "${server}", because server "${other}" has tools of the same name: ${examples.join(', ')}${more}.${isHelped ? ' Set prefixToolNames' : ''}`,
    server,
    ...(tools.length === 1 && { tool: origin.toolName }),
  })
}

function serverKey({ server }: McpToolOrigin): string {
  return originKey({ server, toolName: '' })
}

/** Returns the name without other tools and without a limit. */
function wantedName(origin: McpToolOrigin, hasPrefix: boolean): string {
  const clean = sanitized(origin.toolName)
  const own = clean === '' ? `tool_${hash(origin, 0)}` : clean
  const prefix = hasPrefix ? sanitized(serverTitle(origin.server)) : ''
  const name = prefix === '' ? own : `${prefix}_${own}`
  // Moonshot and Gemini refuse a request with another first character (kimi-cli#2531, FastGPT#5834).
  return /^[A-Za-z]/.test(name) ? name : `tool_${name}`
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
