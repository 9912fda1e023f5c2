import type { CallToolResult, McpServer } from '@modelcontextprotocol/server'
import { inputRequired } from '@modelcontextprotocol/server'
import type { ConformanceServerOptions } from './conformance-server.ts'

/** Tools by which the suite sees what it could not see from outside: streams, logs, and changes of lists. */
export function addDiagnosticTools(
  mcp: McpServer,
  { tellToolsChanged, tellPromptsChanged }: ConformanceServerOptions,
): void {
  mcp.registerTool(
    'test_streaming_elicitation',
    { description: 'Logs, and then asks for a confirmation.' },
    async (context) => {
      await context.mcpReq.log('info', 'about to ask')
      const requestedSchema = { type: 'object', properties: { ok: { type: 'boolean' } } } as const
      const ok = inputRequired.elicit({ message: 'Go on?', requestedSchema })
      return context.mcpReq.inputResponses?.['ok'] ? done : inputRequired({ inputRequests: { ok } })
    },
  )
  mcp.registerTool(
    'test_logging_tool',
    { description: 'Logs, for whoever asked for logs.' },
    async (context) => {
      await context.mcpReq.log('info', 'working')
      return done
    },
  )
  mcp.registerTool('test_trigger_tool_change', { description: 'Changes the tools.' }, () => {
    tellToolsChanged()
    return done
  })
  mcp.registerTool('test_trigger_prompt_change', { description: 'Changes the prompts.' }, () => {
    tellPromptsChanged()
    return done
  })
}

const done: CallToolResult = { content: [{ type: 'text', text: 'done' }] }
