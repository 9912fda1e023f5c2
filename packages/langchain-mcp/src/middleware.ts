// Everything exported here is public API. Needs `langchain`, which the rest of the package does not.
import './runtime-check.ts' // stays the first import
import { ToolMessage } from '@langchain/core/messages'
import { BoundedMap, check, legible } from '@x/internal'
import { createMiddleware, type AgentMiddleware } from 'langchain'
import { assertOptions } from './options.ts'
import { mayDestroy } from './tool-source.ts'
import type { McpTools } from './create-mcp-tools.ts'
import { ToolSearch } from './search/tool-search.ts'
import { McpTool } from './tools/mcp-tool.ts'
import { readCalls } from './tools/readable-calls.ts'

/**
 * Time after a failed list request in which the server is not asked again. A server that does not answer would
 * delay each model call.
 */
const RETRY = { retryDownAfterMs: 30_000 } as const

/** A server that lists new tools each time would fill the memory. */
const MAX_OFFERED = 10_000

const MCP_TOOLS = check.required({
  ...check.or(check.methods('toolSearch', 'status'), check.methods('shownFor')),
  takes: 'what createMcpTools() returns, or a ToolSearch',
})

/**
 * Gives an agent the current tools of its servers before each model call. A running agent gets new tools, sees
 * new schemas, and loses removed tools. Cached lists are not requested again. Calls of these tools whose arguments
 * LangChain cannot read, such as empty ones, are made, where the meaning is clear.
 *
 * For tools of `createMcpToolsFromAgent()` or `loadMcpTools()`, pass `new ToolSearch(tools)`.
 *
 * Leave these tools out of `createAgent({ tools })`: LangChain lets a middleware add and remove tools, but does
 * not replace a tool that the agent was created with.
 *
 * @example
 * ```ts
 * import { createMcpTools } from '@x/langchain-mcp'
 * import { mcpToolsMiddleware } from '@x/langchain-mcp/middleware'
 * import { createAgent } from 'langchain'
 *
 * const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const model = 'anthropic:claude-sonnet-4-5'
 * const agent = createAgent({ model, middleware: [mcpToolsMiddleware(mcp)] })
 * ```
 */
export function mcpToolsMiddleware(
  mcp: Pick<McpTools, 'toolSearch' | 'status'> | ToolSearch,
): AgentMiddleware {
  assertOptions('mcpToolsMiddleware()', { mcp }, { mcp: MCP_TOOLS })
  /** Names of tools that a model may have seen: they separate removed tools from unknown ones. */
  const offered = new BoundedMap<string, true>(MAX_OFFERED)
  /**
   * Names of the other tools in a model call, by the ids of the tool calls that it made. A search does not find tools that
   * these hide. Other runs, and other agents with this middleware, may have other tools.
   */
  const takenAt = new BoundedMap<string, readonly string[]>(MAX_OFFERED)
  const currentSearch = async (): Promise<ToolSearch> =>
    mcp instanceof ToolSearch ? mcp : mcp.toolSearch(RETRY)
  return createMiddleware({
    name: 'McpTools',
    async wrapModelCall(request, handler) {
      const search = await currentSearch()
      const { registered } = search
      for (const { name } of registered) offered.set(name, true)
      const servers = mcp instanceof ToolSearch ? [] : mcp.status().map(({ name }) => name)
      // Only these tools, and removed tools of these servers, are replaced, never tools from elsewhere.
      const others = request.tools.filter(
        (tool) =>
          !(tool instanceof McpTool) ||
          !(registered.includes(tool) || servers.includes(tool.origin.server.name ?? '')),
      )
      const taken = others.map((tool) => String(tool['name']))
      const shown = search
        .shownFor(request.state.messages, taken)
        // LangChain refuses another object for a tool that the agent was created with.
        .map((tool) => request.tools.find(({ name }) => name === tool.name) ?? tool)
      const message = await handler({ ...request, tools: [...others, ...shown] })
      readCalls(message, new Set(shown.map(({ name }) => String(name))))
      for (const { id } of message.tool_calls ?? []) if (id !== undefined) takenAt.set(id, taken)
      return message
    },
    async wrapToolCall(request, handler) {
      if (request.tool !== undefined) return handler(request)
      const { id = '', name } = request.toolCall
      const tool = (await currentSearch()).find(name, takenAt.get(id))
      if (tool !== undefined) return handler({ ...request, tool })
      if (!offered.has(name)) return handler(request)
      const content = `Tool "${name}" is no longer there, or its server cannot be reached now, so it was not executed. Do not call it again: use another tool, or tell the user.`
      return new ToolMessage({ status: 'error', content, name, tool_call_id: id })
    },
  })
}

/** An `InterruptOnConfig` of LangChain, of any copy of its declarations. */
export interface ApprovalConfig {
  allowedDecisions: ('approve' | 'edit' | 'reject')[]
  description: string
}

/**
 * Returns the option `interruptOn` of `humanInTheLoopMiddleware()`, which asks a person once for all calls of a
 * message. The keys are the names that the model sees.
 *
 * @param asks selects the tools that a person has to approve. The default is `mayDestroy()`, by annotations
 * @example
 * ```ts
 * import { createMcpTools } from '@x/langchain-mcp'
 * import { interruptOnFrom } from '@x/langchain-mcp/middleware'
 *
 * await using mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const interruptOn = interruptOnFrom(await mcp.listTools()) // for humanInTheLoopMiddleware()
 * ```
 */
export function interruptOnFrom(
  tools: readonly McpTool[],
  asks: (tool: McpTool) => boolean = ({ definition }) => mayDestroy(definition),
): Record<string, ApprovalConfig> {
  return Object.fromEntries(
    tools.filter(asks).map((tool) => [
      tool.name,
      {
        allowedDecisions: ['approve', 'edit', 'reject'],
        description: `MCP tool "${legible(tool.definition.title ?? tool.origin.toolName)}" is about to be called`,
      },
    ]),
  )
}
