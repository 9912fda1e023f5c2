import type { StructuredTool } from '@langchain/core/tools'
import { InMemoryStore } from '@langchain/langgraph'
import type { StructuredToolInterface as CommonJsTool } from '@langchain/core/tools' with {
  'resolution-mode': 'require',
}
import { createAgent } from 'langchain'
import type {
  createAgent as createAgentInCommonJs,
  InterruptOnConfig as CommonJsInterruptOn,
} from 'langchain' with { 'resolution-mode': 'require' }
import { expectTypeOf, test } from 'vitest'
import {
  createMcpTools,
  SessionInfoFactory,
  SessionInfoLangGraphStoreFactory,
  type McpTools,
  type ServerStatus,
} from './index.ts'
import { interruptOnFrom } from './middleware.ts'

const servers = { shop: { url: 'https://shop.example/mcp' } }

test('accepts entries in a variable, with the words of other clients', () => {
  const shop = { url: 'https://shop.example/mcp', type: 'http', transport: 'streamable_http' }
  const files = { command: 'node', type: 'stdio', transport: 'stdio' }
  createMcpTools({ servers: { shop, files } })
})

test('creates tools that fit an agent', async () => {
  const mcp = createMcpTools({ servers })
  expectTypeOf(mcp).toEqualTypeOf<McpTools>()
  expectTypeOf(mcp).toExtend<AsyncDisposable>()
  expectTypeOf(mcp.status()).toEqualTypeOf<ServerStatus[]>()
  const tools = await mcp.listTools()
  expectTypeOf(tools).toExtend<StructuredTool[]>()
  createAgent({ model: 'any', tools })
})

test('creates tools that fit the declarations of LangChain for CommonJS', async () => {
  const tools = await createMcpTools({ servers }).listTools()
  expectTypeOf(tools).toExtend<CommonJsTool[]>()
  expectTypeOf<typeof createAgentInCommonJs>().toBeCallableWith({ model: 'any', tools })
  expectTypeOf(interruptOnFrom(tools)).toExtend<Record<string, CommonJsInterruptOn>>()
})

test('accepts a session of a run, a thread, all calls, or a factory', () => {
  for (const session of ['run', 'thread', 'shared'] as const) createMcpTools({ servers, session })
  createMcpTools({ servers, session: new SessionInfoFactory() })
  createMcpTools({ servers, session: undefined })
  // @ts-expect-error -- no such scope
  createMcpTools({ servers, session: 'user' })
})

test('accepts a store of LangGraph', () => {
  const factory = new SessionInfoLangGraphStoreFactory({ store: new InMemoryStore() })
  expectTypeOf(factory).toExtend<SessionInfoFactory>()
})

test('accepts headers that depend on the run, and refuses a misspelt server', () => {
  createMcpTools({
    servers: {
      shop: {
        url: 'https://shop.example/mcp',
        headers: ({ configurable, scope, rpcMethod }) => {
          expectTypeOf(configurable).toEqualTypeOf<Readonly<Record<string, unknown>>>()
          return { 'x-user': `${scope?.principal} ${rpcMethod}` }
        },
      },
    },
    principal: ({ configurable }) => configurable?.['user'],
  })
  // @ts-expect-error -- it is called `url`
  createMcpTools({ servers: { shop: { uri: 'https://shop.example/mcp' } } })
})

test('accepts how tools are searched, and refuses a misspelt word', () => {
  createMcpTools({ servers, tools: { search: 'provider', alwaysShow: ['pay'], budget: {} } })
  // @ts-expect-error -- it is called `true`
  createMcpTools({ servers, tools: { search: 'always' } })
})
