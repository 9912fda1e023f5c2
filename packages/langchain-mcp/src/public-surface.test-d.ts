import type { StructuredTool } from '@langchain/core/tools'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { McpClient } from '@x/mcp-client'
import { expectTypeOf, test } from 'vitest'
import {
  createMcpToolsFromAgent,
  createMcpToolsFromMetadataForMcpServer,
  loadMcpTools,
  type AgentDefinition,
  type McpTool,
  type McpToolErrorCode,
  type McpToolSource,
} from './index.ts'

declare const agent: AgentDefinition
declare const client: McpToolSource

test('tools are structured tools, and fit a ToolNode', async () => {
  const tools = await loadMcpTools(client)
  expectTypeOf(tools).toExtend<StructuredTool[]>()
  expectTypeOf(new ToolNode(tools)).toExtend<ToolNode>()
})

test('accepts the client of SDK v1', () => {
  expectTypeOf<Client>().toExtend<Parameters<typeof loadMcpTools>[0]>()
})

test('returns the tools and clients of an agent', async () => {
  const { tools, clients } = await createMcpToolsFromAgent(agent, { terminateOnClose: false })
  expectTypeOf(tools).toEqualTypeOf<McpTool[]>()
  expectTypeOf(clients).toEqualTypeOf<McpClient[]>()
})

test('refuses a misspelt option', () => {
  // @ts-expect-error -- it is called `terminateOnClose`
  void createMcpToolsFromAgent(agent, { terminateOnDispose: true })
  // @ts-expect-error -- it is 'message' or 'throw'
  void loadMcpTools(client, { onToolError: 'return' })
})

test('needs a resource and a client for one server', () => {
  expectTypeOf(createMcpToolsFromMetadataForMcpServer).returns.resolves.toEqualTypeOf<McpTool[]>()
  // @ts-expect-error -- a resource has a name
  void createMcpToolsFromMetadataForMcpServer({ $resourceType: 'mcp' }, client)
})

test('error codes are a closed union', () => {
  expectTypeOf<McpToolErrorCode>().toEqualTypeOf<
    | 'TOOL_FAILED'
    | 'TASK_EXPIRED'
    | 'TASK_FAILED'
    | 'SCHEMA_CHANGED'
    | 'TOOL_REMOVED'
    | 'INVALID_STATIC_ARGUMENT'
    | 'SERVER_ERROR'
    | 'SESSION_LOST'
    | 'OUTCOME_UNKNOWN'
    | 'TIMEOUT'
    | 'UNREACHABLE'
    | 'UNAUTHORIZED'
    | 'INVALID_OUTPUT'
    | 'HTTP_ERROR'
    | 'CONFIG'
    | 'NO_RUN'
    | 'CLOSED'
    | 'TOOL_REDEFINED'
    | 'INPUT_REQUIRED'
  >()
})
