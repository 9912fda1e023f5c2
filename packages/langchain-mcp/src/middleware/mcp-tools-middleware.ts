import { ToolMessage } from '@langchain/core/messages'
import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { createMiddleware, type AgentMiddleware } from 'langchain'
import type { McpTools } from '../mcp-tools.ts'
import { McpTool } from '../calls/mcp-tool.ts'
import { assertOptions } from '../option-check.ts'

export interface McpToolsMiddlewareOptions {
  /**
   * How long the agent goes without a server that gave no list before it is asked again, in milliseconds:
   * one that does not answer would hold up each call of the model. @default 30_000
   */
  readonly retryDownAfterMs?: number | undefined
}

const optionChecks: Checks<McpToolsMiddlewareOptions & { mcp: unknown }> = {
  mcp: check.required({
    ...check.methods('listTools', 'status'),
    takes: 'what createMcpTools() returns',
  }),
  retryDownAfterMs: check.number(),
}

/**
 * Offers an agent the tools that its servers have now, before each call of its model: an agent that runs
 * gets tools that came meanwhile, sees new schemas, and loses those that are gone. What is known is not
 * asked again.
 *
 * Leave these tools out of `createAgent({ tools })`: LangChain lets a middleware add tools and take them
 * away, but not replace one that the agent was made with, which stays as it was.
 */
export function mcpToolsMiddleware(
  mcp: Pick<McpTools, 'listTools' | 'status'>,
  options: McpToolsMiddlewareOptions = {},
): AgentMiddleware {
  assertOptions('mcpToolsMiddleware()', { mcp, ...options }, optionChecks)
  const { retryDownAfterMs = 30_000 } = options
  /** All that a model may have been told of, to tell a tool that is gone from one that never was. */
  const offered = new Set<string>()
  return createMiddleware({
    name: 'McpTools',
    async wrapModelCall(request, handler) {
      const current = await mcp.listTools({ retryDownAfterMs })
      for (const { name } of current) offered.add(name)
      const names = new Set(current.map(({ name }) => name))
      const servers = new Set(mcp.status().map(({ name }) => name))
      // Tools of other sets, and those that are no MCP tools, are not ours to take away.
      const kept = request.tools.filter(
        (tool) =>
          !(tool instanceof McpTool) ||
          !servers.has(tool.origin.server.name ?? '') ||
          names.has(tool.name),
      )
      const known = new Set(kept.map((tool) => tool['name']))
      const added = current.filter(({ name }) => !known.has(name))
      return handler({ ...request, tools: [...kept, ...added] })
    },
    async wrapToolCall(request, handler) {
      if (request.tool !== undefined) return handler(request)
      const { id = '', name } = request.toolCall
      const tool = (await mcp.listTools({ retryDownAfterMs })).find((one) => one.name === name)
      if (tool !== undefined) return handler({ ...request, tool })
      if (!offered.has(name)) return handler(request)
      const content = `Tool "${name}" is no longer there, or its server cannot be reached now, so it was not executed. Do not call it again: use another tool, or tell the user.`
      return new ToolMessage({ status: 'error', content, name, tool_call_id: id })
    },
  })
}
