import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Command } from '@langchain/langgraph'
import type { McpClient } from '@x/mcp-client'
import type { createAgent } from 'langchain'
import { expectTypeOf, test } from 'vitest'
import { createMcpTools, type McpTools, type ToolInterceptor } from './index.ts'
import type { ToolCallAnswer } from './tools/interceptors.ts'
import type { mcpToolsMiddleware } from './middleware.ts'
import type { loadMcpPrompt } from './prompts.ts'
import type { loadMcpResources } from './resources.ts'

declare const servers: Parameters<typeof createMcpTools>[0]['servers']

test('an interceptor may answer with a result, a message or a Command', () => {
  expectTypeOf<Command>().toExtend<ToolCallAnswer>()
  expectTypeOf<() => { content: [] }>().toExtend<ToolInterceptor>()
})

test('refuses a misspelt hook', () => {
  // @ts-expect-error -- it is called 'first-use'
  void createMcpTools({ servers, pin: 'first' })
  // @ts-expect-error -- a list of names, or a function
  void createMcpTools({ servers, allow: 'echo' })
})

test('types the payload of toolsChanged', () => {
  type Told = Parameters<Parameters<McpTools['on']>[1]>[0]
  expectTypeOf<Told['added']>().toEqualTypeOf<readonly string[]>()
})

test('accepts resources and prompts of our client, of SDK v1, and of live tools', () => {
  expectTypeOf<McpClient>().toExtend<Parameters<typeof loadMcpResources>[0]>()
  expectTypeOf<McpClient>().toExtend<Parameters<typeof loadMcpPrompt>[0]>()
  expectTypeOf<Client>().toExtend<Parameters<typeof loadMcpResources>[0]>()
  expectTypeOf<Client>().toExtend<Parameters<typeof loadMcpPrompt>[0]>()
  expectTypeOf<ReturnType<McpTools['server']>>().toExtend<Parameters<typeof loadMcpResources>[0]>()
  expectTypeOf<ReturnType<McpTools['server']>>().toExtend<Parameters<typeof loadMcpPrompt>[0]>()
})

test('the middleware fits an agent', () => {
  type Middleware = NonNullable<Parameters<typeof createAgent>[0]['middleware']>[number]
  expectTypeOf<ReturnType<typeof mcpToolsMiddleware>>().toExtend<Middleware>()
})
