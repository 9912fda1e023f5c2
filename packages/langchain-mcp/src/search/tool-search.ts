import { DynamicStructuredTool, type StructuredTool } from '@langchain/core/tools'
import { check, isRecord, nearestWord, type Checks } from '@x/internal'
import { logOnce, processWarnings, type ToolLog } from '../log.ts'
import { assertOptions, configError } from '../options.ts'
import { serverTitle, type QuarantinedTool } from '../tool-source.ts'
import type { McpTool } from '../tools/mcp-tool.ts'
import { startOf } from '../tools/well-formed.ts'

/** How a model gets tools, if there are many. */
export interface ToolSearchOptions {
  /**
   * - `'auto'`: above the budget, the model sees one tool that searches the others, and those that it has found.
   * - `true`: the same, also below the budget. `false`: the model sees all tools.
   * - `'provider'`: above the budget, tools are marked with `extras.defer_loading`, for the search of Anthropic or OpenAI.
   *
   * Needs `mcpToolsMiddleware()`, or a graph that binds `ToolSearch.shownFor()`; `'provider'` needs neither. @default 'auto'
   */
  readonly search?: 'auto' | 'provider' | boolean | undefined
  /** Tools that the model always sees: their names for the model or on their server. @default none */
  readonly alwaysShow?: readonly string[] | undefined
  /** Tools that the model sees without a search: their number, and the bytes of their definitions. */
  readonly budget?: ToolBudget | undefined
}

interface ToolBudget {
  /** @default 40 */
  readonly tools?: number | undefined
  /** Bytes of the definitions as JSON. @default no limit */
  readonly bytes?: number | undefined
}

export const toolSearchChecks: Checks<ToolSearchOptions> = {
  search: check.or(check.oneOf('auto', 'provider'), check.flag),
  alwaysShow: check.listOf(check.text),
  budget: check.section({
    tools: check.number(),
    bytes: check.number(),
  } satisfies Checks<ToolBudget>),
}

/** A message of a thread. Its tool calls and the artifact of a search say which tools the model knows. */
interface ThreadMessage {
  readonly content: unknown
  readonly tool_calls?: readonly { readonly name: string }[] | undefined
  readonly artifact?: unknown
}

/** A choice degrades beyond 30 to 50 tools (Anthropic, "Tool search tool"). */
const MAX_TOOLS = 40
const SEARCH_NAME = 'search_tools'
const SEARCH_SCHEMA = {
  type: 'object',
  properties: {
    query: {
      type: 'string',
      description:
        'Names of tools, such as "select:create_issue,list_issues"; or a few words for what to do, with which things, on which server, such as "github create issue".',
    },
  },
  required: ['query'],
} as const
const FOUND_AT_ONCE = 5
const MAX_DESCRIPTION = 200
/** Limit of the names of tools in the description of the search tool: about 2,500 tokens, for some 350 tools. */
const MAX_NAMES = 8000

/**
 * The tools of one list, of which a model sees few: those of `alwaysShow`, one that searches, and those that it has
 * found or called in its thread. The messages of the thread keep their names, so any process can continue it.
 *
 * @example
 * ```ts
 * import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
 * import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
 * import { createMcpTools } from '@x/langchain-mcp'
 * import { initChatModel } from 'langchain'
 *
 * const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const search = await mcp.toolSearch()
 * const model = await initChatModel('anthropic:claude-sonnet-4-5')
 * const graph = new StateGraph(MessagesAnnotation)
 *   .addNode('model', async ({ messages }) => ({
 *     messages: [await model.bindTools(search.shownFor(messages)).invoke(messages)],
 *   }))
 *   .addNode('tools', new ToolNode(search.registered))
 *   .addEdge(START, 'model')
 *   .addConditionalEdges('model', toolsCondition)
 *   .addEdge('tools', 'model')
 *   .compile()
 * await mcp.close()
 * ```
 */
export class ToolSearch {
  /** False if the model sees all tools. */
  readonly isActive: boolean
  readonly #tools: readonly McpTool[]
  readonly #alwaysShown: ReadonlySet<string>
  readonly #log: ToolLog

  /**
   * @param options `search: 'provider'` counts as false
   * @param log receives a warning for each tool that another tool of the agent hides. The default is warnings of the
   * Node process
   * @throws {McpClientError} `CONFIG` for options that are unknown or have a wrong value, for a name in `alwaysShow`
   * that no tool has, and for tools of one name
   */
  constructor(
    tools: readonly McpTool[],
    options: ToolSearchOptions = {},
    log: ToolLog = processWarnings,
  ) {
    assertOptions('ToolSearch', options, toolSearchChecks)
    assertOwnNames(tools)
    const { search, alwaysShow = [] } = options
    const unknown = unknownNames(alwaysShow, tools.flatMap(namesOf))
    if (unknown !== '') throw configError(`ToolSearch: "alwaysShow" names no tool: ${unknown}`)
    this.isActive = search !== 'provider' && isSearched(tools, options)
    this.#tools = tools
    const shown = tools.filter((tool) => namesOf(tool).some((name) => alwaysShow.includes(name)))
    this.#alwaysShown = new Set(shown.map(({ name }) => name))
    this.#log = logOnce(log)
  }

  /** All tools, for `new ToolNode()`: with the one that searches, if the search is active. */
  get registered(): StructuredTool[] {
    return this.isActive
      ? [...this.#tools, this.#searchTool(this.#searchName([]), this.#tools)]
      : [...this.#tools]
  }

  /**
   * Returns the tools for the next call of the model. New tools come last, so that the provider's prompt cache stays valid.
   *
   * @param messages all messages of the thread
   * @param taken names of other tools of the agent. They hide tools of the same name, and the search gets another name
   */
  shownFor(messages: readonly ThreadMessage[], taken: readonly string[] = []): StructuredTool[] {
    const tools = this.#besides(taken)
    for (const { name, origin } of this.#tools.filter((tool) => !tools.includes(tool))) {
      const server = serverTitle(origin.server)
      const tool = origin.toolName
      const message = `Tool "${tool}" of MCP server "${server}" is hidden from the model: another tool of the agent is called "${name}". Set prefixToolNames`
      this.#log({ level: 'warning', code: 'NAME_COLLISION', message, server, tool })
    }
    if (!this.isActive) return tools
    const byName = new Map(tools.map((tool) => [tool.name, tool]))
    const always = tools.filter(({ name }) => this.#alwaysShown.has(name))
    const found = [...namesIn(messages)]
      .filter((name) => !this.#alwaysShown.has(name))
      .flatMap((name) => byName.get(name) ?? []) // a name that is gone is left out
    return [...always, this.#searchTool(this.#searchName(taken), tools), ...found]
  }

  /**
   * Returns the tool that a model calls by this name, whether it was shown or not.
   *
   * @param taken names of other tools of the agent. The search does not find tools of the same name
   */
  find(name: string, taken: readonly string[] = []): StructuredTool | undefined {
    const tool = this.#tools.find((one) => one.name === name)
    const isSearch = tool === undefined && SEARCH_NAMES.test(name)
    return isSearch ? this.#searchTool(name, this.#besides(taken)) : tool
  }

  /** Returns the tools that no other tool of the agent hides. */
  #besides(taken: readonly string[]): McpTool[] {
    return this.#tools.filter(({ name }) => !taken.includes(name))
  }

  /** A server, or the agent itself, may have a tool of this name. */
  #searchName(taken: readonly string[]): string {
    const names = new Set([...taken, ...this.#tools.map(({ name }) => name)])
    let name = SEARCH_NAME
    for (let number = 2; names.has(name); number++) name = `${SEARCH_NAME}_${number}`
    return name
  }

  #searchTool(name: string, tools: readonly McpTool[]): DynamicStructuredTool {
    return new DynamicStructuredTool({
      name,
      description: `Finds tools that you do not see yet. Before you say that something is not possible, search. You can call the tools that it finds in your next step.\n${overviewOf(tools)}`,
      schema: SEARCH_SCHEMA,
      responseFormat: 'content_and_artifact',
      func: async ({ query }: { query: string }) => {
        const { indexOf } = await import('./tool-index.ts') // with the library, when it is needed
        const names = await indexOf(tools).find(query, FOUND_AT_ONCE)
        return [answerWith(names, tools), { [FOUND]: names }]
      },
    })
  }
}

/** @throws {McpClientError} `CONFIG` for two tools of one name: the model could not choose between them */
function assertOwnNames(tools: readonly McpTool[]): void {
  const owners = new Map<string, McpTool>()
  for (const tool of tools) {
    const { name, origin } = tool
    const owner = owners.get(name)
    if (owner !== undefined) {
      const servers = [owner.origin, origin].map(({ server }) => `"${serverTitle(server)}"`)
      throw configError(
        `ToolSearch: two tools are called "${name}", of the MCP servers ${servers.join(' and ')}. Set prefixToolNames`,
      )
    }
    owners.set(name, tool)
  }
}

/** Returns the answer of a search that found these names. */
function answerWith(names: readonly string[], tools: readonly McpTool[]): string {
  if (names.length === 0) {
    return `No tool has these words. Search with other words, or with names.\n${overviewOf(tools)}`
  }
  const lines = names.map((name) => {
    const { description = '', origin } = tools.find((tool) => tool.name === name) ?? {}
    const server = origin === undefined ? '' : serverTitle(origin.server)
    return `- ${name} (${server}): ${cut(description.replaceAll(/\s+/g, ' '))}`
  })
  return `You can now call:\n${lines.join('\n')}`
}

/** The servers, with as many names of tools as fit. */
function overviewOf(given: readonly McpTool[]): string {
  const byServer = Map.groupBy(given, ({ origin }) => serverTitle(origin.server))
  const all = given.reduce((sum, { name }) => sum + name.length + 2, 0)
  const share = all <= MAX_NAMES ? Infinity : MAX_NAMES / byServer.size
  const lines = Array.from(byServer, ([server, tools]) => {
    const names = tools.map(({ name }) => name).join(', ')
    const shown =
      names.length <= share ? names : `${names.slice(0, names.lastIndexOf(',', share) + 1)} …`
    return `- ${server} (${tools.length} tools): ${shown}`
  })
  return `MCP servers and their tools:\n${lines.join('\n')}`
}

/** Field of the artifact of a search. */
const FOUND = 'foundTools'
const SEARCH_NAMES = /^search_tools(?:_\d+)?$/

/** Returns true if the model does not see all of these tools. */
function isSearched(
  tools: readonly McpTool[],
  { search = 'auto', budget = {} }: ToolSearchOptions,
): boolean {
  if (typeof search === 'boolean') return search && tools.length > 0
  const { tools: maxTools = MAX_TOOLS, bytes: maxBytes = Infinity } = budget
  if (tools.length > maxTools) return true
  return maxBytes < Infinity && bytesOf(tools) > maxBytes
}

/** Returns the names that a user has for a tool: the one that the model sees, and the one on the server. */
export function namesOf({ name, origin }: McpTool): string[] {
  return [name, origin.toolName]
}

/** Returns text that lists the names that are not known, each with the nearest known one. Empty if all are. */
export function unknownNames(asked: Iterable<string>, known: readonly string[]): string {
  const unknown = [...asked].filter((name) => !known.includes(name))
  const texts = unknown.map((name) => {
    const nearest = nearestWord(name, known)
    return nearest === undefined ? `"${name}"` : `"${name}" (did you mean "${nearest}"?)`
  })
  return texts.join(', ')
}

function bytesOf(tools: readonly McpTool[]): number {
  return tools
    .map(({ name, description, definition: { inputSchema } }) => [name, description, inputSchema])
    .reduce((sum, shown) => sum + Buffer.byteLength(JSON.stringify(shown)), 0)
}

/**
 * Names of tools that a thread has found or called, in this order. Called tools count, because a thread may be older than
 * the search.
 */
function namesIn(messages: readonly ThreadMessage[]): ReadonlySet<string> {
  const names = new Set<string>()
  for (const { tool_calls: calls = [], artifact } of messages) {
    for (const { name } of calls) names.add(name)
    const found = isRecord(artifact) ? artifact[FOUND] : undefined
    for (const name of Array.isArray(found) ? found : []) {
      if (typeof name === 'string') names.add(name)
    }
  }
  return names
}

function cut(text: string): string {
  return text.length > MAX_DESCRIPTION ? `${startOf(text, MAX_DESCRIPTION)}…` : text
}

/** Keywords at the root of a schema for which `ChatAnthropic` leaves a tool out, without a message. */
const DROPPED_WITH = ['allOf', 'anyOf', 'oneOf']

/**
 * Marks tools for the provider's own search, with `search: 'provider'`: above the budget, all but those of `alwaysShow`.
 *
 * @returns the tools that `ChatAnthropic` drops, with the reasons
 */
export function deferTools(
  tools: readonly McpTool[],
  options: ToolSearchOptions,
): readonly QuarantinedTool[] {
  const { search, alwaysShow = [] } = options
  if (search !== 'provider' || !isSearched(tools, options)) return []
  for (const tool of tools) {
    if (namesOf(tool).some((name) => alwaysShow.includes(name))) continue
    tool.extras = { ...tool.extras, defer_loading: true }
  }
  return tools.flatMap(({ origin, schema }) => {
    const keyword = DROPPED_WITH.find((one) => Object.hasOwn(schema, one))
    if (keyword === undefined) return []
    const reason = `ChatAnthropic drops it, because its schema has "${keyword}" at the root. Set schemaFor: 'anthropic'`
    return [{ ...origin, reason }]
  })
}
