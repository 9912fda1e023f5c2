import type { ToolMessage } from '@langchain/core/messages'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import { canonicalJson, check, untilAborted } from '@x/internal'
import { createHash } from 'node:crypto'
import { McpToolError, type ToolOutcome } from '../errors.ts'
import {
  serverTitle,
  type McpServerLabel,
  type McpToolOrigin,
  type McpToolSource,
  type ToolDefinition,
  type ToolResult,
} from '../tool-source.ts'
import { answeredByClient, type ElicitationToInterrupt } from '../graph/elicitation-to-interrupt.ts'
import type { McpToolOptions } from './mcp-tool.ts'
import type { ToolCall } from './tool-call.ts'

/** A call before it is sent to a server. */
export interface ToolCallRequest {
  /** The name that the model used. */
  readonly name: string
  readonly server: McpServerLabel
  /** The server's definition; `tool.name` is the name on the server. */
  readonly tool: ToolDefinition
  readonly args: Readonly<Record<string, unknown>>
  /** Returns a copy of arguments for people and logs, without sensitive values of `argumentProperties`. */
  readonly withoutSecrets: (
    args: Readonly<Record<string, unknown>>,
  ) => Readonly<Record<string, unknown>>
  /**
   * Headers of this call, also in the requests of its task. They replace headers of the server's config. Ignored for
   * servers without a URL in the config, and for clients of the SDK.
   */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Limit of this call in milliseconds, with its questions and its task, without the time that people take. The initial
   * value is the option `timeoutMs`, or the `timeout` of the run, which applies in any case. @default that of the client
   */
  readonly timeoutMs: number | undefined
  /** Sent as `_meta` of the call. */
  readonly meta: Readonly<Record<string, unknown>>
  /** Config that the tool was called with: `configurable`, `signal`, `toolCall`, … */
  readonly config: ToolRunnableConfig
}

/** Changes of a request. Absent fields stay as they are. */
type ToolCallChange = {
  readonly [Field in 'args' | 'headers' | 'meta' | 'timeoutMs']?: ToolCallRequest[Field] | undefined
}

/** An answer that the graph receives unchanged: a message, or a `Command` of LangGraph. */
export type DirectAnswer =
  | ToolMessage
  | { readonly lg_name: 'Command'; readonly lc_direct_tool_output: boolean }

export type ToolCallAnswer = ToolResult | DirectAnswer

/**
 * A function around each call. It can read the request, change it with the argument of `next`, answer
 * without the server by not calling `next`, and return another result. Errors that it throws, and rejections
 * of `next()`, are handled as failures of the call. It runs again when a graph is resumed after an
 * interrupt, so its own effects must be repeatable.
 */
export type ToolInterceptor = (
  request: ToolCallRequest,
  next: (change?: ToolCallChange) => Promise<ToolCallAnswer>,
) => ToolCallAnswer | Promise<ToolCallAnswer>

/** Calls the interceptors, the first one outermost. */
export async function intercepted(
  interceptors: readonly ToolInterceptor[],
  call: ToolCall,
  request: ToolCallRequest,
): Promise<ToolCallAnswer> {
  const [first, ...others] = interceptors
  if (first === undefined) return call.send(request)
  const next = (change: ToolCallChange = {}): Promise<ToolCallAnswer> => {
    const { args = request.args, headers = request.headers, meta = request.meta } = change
    const { timeoutMs = request.timeoutMs } = change
    assertLimit(timeoutMs, first)
    return intercepted(others, call, { ...request, args, headers, meta, timeoutMs })
  }
  // An interceptor has as much time as it takes, but it does not keep an aborted run alive.
  const answering = Promise.resolve(first(request, next))
  const answer = await untilAborted(answering, request.config.signal)
  if (isAnswer(answer)) return answer
  throw new TypeError(
    `${titleOf(first)} returned ${answer === null ? 'null' : typeof answer}: return what next() gives, a result, a ToolMessage or a Command`,
  )
}

function titleOf({ name }: ToolInterceptor): string {
  return name === '' ? 'An interceptor' : `The interceptor ${name}`
}

/** A wrong limit would be none. */
function assertLimit(timeoutMs: unknown, interceptor: ToolInterceptor): void {
  const { takes, accepts } = check.number()
  if (timeoutMs === undefined || accepts(timeoutMs)) return
  throw new TypeError(`${titleOf(interceptor)} gave a wrong timeoutMs to next(): it takes ${takes}`)
}

/** JavaScript does not report a missing `return`. */
function isAnswer(answer: unknown): answer is ToolCallAnswer {
  return typeof answer === 'object' && answer !== null
}

/**
 * Returns true for a message or a `Command`. Results of a server are plain objects, whatever fields they
 * have.
 */
export function isDirectAnswer(answer: ToolCallAnswer): answer is DirectAnswer {
  return Object.getPrototypeOf(answer) !== Object.prototype && 'lc_direct_tool_output' in answer
}

/** Functions and checks between a tool and its server. */
export interface ToolHooks {
  /** Functions around every call, the first one outermost. @default none */
  readonly interceptors?: readonly ToolInterceptor[] | undefined
  /**
   * Refuses tools whose definition differs from the pinned one. With hashes, every tool of a listed server
   * needs a hash. `'first-use'` pins the first definition in this process. Such tools are left out of lists,
   * and calls of older ones are refused (`TOOL_REDEFINED`). Stored definitions of an agent are pinned as a
   * whole. @default no pins
   */
  readonly pin?: 'first-use' | PinnedTools | undefined
}

/** Returns all interceptors, outermost first: pins, then the caller's. */
export function interceptorsFrom(
  { interceptors = [], elicitation }: Pick<McpToolOptions, 'interceptors' | 'elicitation'>,
  pins: ToolPins | undefined,
  source: McpToolSource,
): readonly ToolInterceptor[] {
  if (pins === undefined) return interceptors
  return [pinInterceptor(pins, source, elicitation || answeredByClient), ...interceptors]
}

/** Hashes of definitions, by server (its slug, else its name) and tool name. Can be stored in a file. */
export type PinnedTools = Readonly<Record<string, Readonly<Record<string, string>>>>

/**
 * Limit of first definitions per server and principal. A server that lists new tools each time would fill
 * the memory. Further tools are refused, because a forgotten one could be redefined.
 */
const MAX_FIRST = 10_000

/**
 * Returns the SHA-256 of a definition in hex. Equal for equal definitions, in any order of keys. Leaves out `_meta`,
 * which may differ in each list.
 */
export function toolDefinitionHash(definition: ToolDefinition): string {
  const { name, title, description, inputSchema, outputSchema, annotations } = definition
  const parts = { name, title, description, inputSchema, outputSchema, annotations }
  return createHash('sha256').update(canonicalJson(parts)).digest('hex')
}

/**
 * Returns the hashes of these tools, for the option `pin`.
 *
 * @example
 * ```ts
 * import { writeFile } from 'node:fs/promises'
 * import { createMcpTools, pinnedToolsFrom } from '@x/langchain-mcp'
 *
 * const servers = { shop: { url: 'https://shop.example/mcp' } }
 * await using mcp = createMcpTools({ servers })
 * const pin = pinnedToolsFrom(await mcp.listTools())
 * await writeFile('pinned-tools.json', JSON.stringify(pin)) // for createMcpTools({ servers, pin })
 * ```
 */
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

/** The definitions that the user accepted. `'first-use'` needs one object for all lists. */
export class ToolPins {
  readonly #pinned: PinnedTools | undefined
  /** Hashes of the first definitions by tool name, for each principal and server, for `'first-use'`. */
  readonly #first = new Map<string, Map<string, string>>()

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
    const { toolName, server } = origin
    const hash = toolDefinitionHash(definition)
    let pinned: string | undefined
    if (this.#pinned === undefined) {
      const { slug, name, folderPath } = server
      const place = JSON.stringify([principal ?? null, folderPath ?? null, slug ?? name ?? null])
      const hashes = this.#first.get(place) ?? new Map<string, string>()
      pinned = hashes.get(toolName) ?? hash
      if (hashes.size >= MAX_FIRST && !hashes.has(toolName)) {
        return `its server has listed ${MAX_FIRST} other tools before`
      }
      this.#first.set(place, hashes.set(toolName, pinned))
    } else {
      const title = serverTitle(server)
      if (!Object.hasOwn(this.#pinned, title)) return undefined
      const hashes = this.#pinned[title] ?? {}
      pinned = Object.hasOwn(hashes, toolName) ? hashes[toolName] : undefined
      if (pinned === undefined) return 'there is no pin for it'
    }
    return hash === pinned ? undefined : `its hash is ${hash}, and ${pinned} was pinned`
  }
}

/** Refuses a call of a tool whose definition differs from the pinned one. A cached list needs no request. */
function pinInterceptor(
  pins: ToolPins,
  source: McpToolSource,
  calls: ElicitationToInterrupt,
): ToolInterceptor {
  return async function pinned({ server, tool, config }, next) {
    const origin = { server, toolName: tool.name }
    const tools = await source.listTools({ config })
    const live = tools.find(({ name }) => name === tool.name)
    const principal = source.principalOf?.(config)
    // The server itself refuses a removed tool.
    const changed = live === undefined ? undefined : pins.redefinition(origin, live, principal)
    if (changed === undefined) return next()
    // The definition may have changed while a task worked or a person was asked.
    const outcome = (await calls.wasSent(config)) ? 'unknown' : 'not-executed'
    throw new McpToolError('TOOL_REDEFINED', redefinedText(origin, changed, outcome), {
      ...origin,
      category: 'user',
      outcome,
    })
  }
}

/** Returns the text for models and people. It does not contain the new description, which may be an attack. */
export function redefinedText(
  { server, toolName }: McpToolOrigin,
  changed: string,
  outcome: ToolOutcome = 'not-executed',
): string {
  const state = outcome === 'unknown' ? 'may have been executed before' : 'was not executed'
  return `MCP tool "${toolName}" of server "${serverTitle(server)}" differs from its pinned definition: ${changed}. It ${state}. Do not call it again; a person has to check the new definition and pin it.`
}
