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

/** Hashes of definitions, by server (its slug, else its name) and tool name. Can be stored in a file. */
export type PinnedTools = Readonly<Record<string, Readonly<Record<string, string>>>>

/**
 * The parts of a definition that a model or this package uses. `_meta` is left out, because it may differ in
 * each list.
 */
const PINNED_PARTS = [
  'name',
  'title',
  'description',
  'inputSchema',
  'outputSchema',
  'annotations',
] as const

/**
 * Limit of first definitions per server and principal. A server that lists new tools each time would fill
 * the memory. Further tools are refused, because a forgotten one could be redefined.
 */
const MAX_FIRST = 10_000

/** Returns the SHA-256 of a definition in hex. Equal for equal definitions, in any order of keys. */
export function toolDefinitionHash(definition: ToolDefinition): string {
  const parts = Object.fromEntries(PINNED_PARTS.map((part) => [part, definition[part]]))
  return createHash('sha256').update(canonicalJson(parts)).digest('hex')
}

/** Returns the hashes of these tools, for the option `pin`. */
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

/** The definitions that the user accepted. */
export class ToolPins {
  readonly #pinned: PinnedTools | undefined
  /** Hash of the first definition, by principal and origin, for `'first-use'`. */
  readonly #first = new Map<string, string>()
  /** Number of first definitions, by principal and server. */
  readonly #counts = new Map<string, number>()
  /** First definitions by hash, because many principals see the same ones. */
  readonly #definitions = new Map<string, ToolDefinition>()

  constructor(pin: 'first-use' | PinnedTools) {
    this.#pinned = pin === 'first-use' ? undefined : pin
  }

  /**
   * Returns how a definition differs from the pinned one, or undefined if it does not. Pins the first
   * definition.
   */
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
    if (count >= MAX_FIRST) return `its server has listed ${MAX_FIRST} other tools before`
    this.#counts.set(place, count + 1)
    const hash = toolDefinitionHash(definition)
    this.#first.set(key, hash)
    if (!this.#definitions.has(hash)) {
      this.#definitions.set(hash, structuredClone(partsOf(definition)))
    }
    return undefined
  }
}

/** Refuses a call of a tool whose definition differs from the pinned one. A cached list needs no request. */
export function pinInterceptor(pins: ToolPins, source: McpToolSource): ToolInterceptor {
  return async function pinned({ server, tool, config }, next) {
    const origin = { server, toolName: tool.name }
    const tools = await source.listTools({ config })
    const live = tools.find(({ name }) => name === tool.name)
    const principal = source.principalOf?.(config)
    // The server itself refuses a removed tool.
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

/** Returns the text for models and people. It does not contain the new description, which may be an attack. */
export function redefinedText({ server, toolName }: McpToolOrigin, changed: string): string {
  return `MCP tool "${toolName}" of server "${serverTitle(server)}" differs from its pinned definition: ${changed}. It was not executed. Do not call it again; a person has to check the new definition and pin it.`
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
