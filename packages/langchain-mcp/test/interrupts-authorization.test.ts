// A server that requires a token that only a person can get: the graph stops with the URL of the page.
import { MemorySaver } from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { createAuthProvider, memoryTokenStore } from '@x/mcp-transport/auth'
import { expect, test } from 'vitest'
import {
  authorizationResume,
  authorizationToInterrupt,
  elicitationToInterrupt,
  isAuthorizationInterrupt,
  McpTool,
  type PendingInterrupt,
} from '../src/index.ts'
import { askingGraph, type AskingGraph } from './asking-graph.ts'
import { startGuardedServer } from './guarded-server.ts'

/** Node 22 has no `AsyncDisposableStack`. */
function disposables(): AsyncDisposable & { add(one: AsyncDisposable): void } {
  const all: AsyncDisposable[] = []
  return {
    add: (one) => void all.push(one),
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((one) => one[Symbol.asyncDispose]()))
    },
  }
}

test('interrupts the graph with the URL for a 401 that needs a person, and then sends the call once', async () => {
  await using server = await startGuardedServer()
  const store = memoryTokenStore() // shared by all processes
  const checkpointer = new MemorySaver()
  await using clients = disposables()
  /** Like another process. */
  const newGraph = (): AskingGraph => {
    const provider = createAuthProvider({
      redirectUrl: 'http://127.0.0.1:3000/callback',
      redirect: () => undefined,
      clientId: 'agent',
      store,
    })
    const authorization = authorizationToInterrupt(provider, server.url)
    const elicitation = elicitationToInterrupt({ authorization })
    const client = new McpClient(
      { url: server.url },
      { handlers: elicitation.handlers, authProvider: authorization.authProvider },
    )
    clients.add(client)
    const add = new McpTool({
      name: 'add',
      definition: { name: 'add' },
      server: { slug: 'shop' },
      source: client,
      options: { elicitation },
    })
    const calls = [{ name: 'add', args: { a: 1, b: 2 } }]
    return askingGraph({ kind: 'fanOutToolCalls', tools: [add], calls, checkpointer })
  }

  const { interrupts } = await newGraph().start()
  const [interrupt] = interrupts
  const value: unknown = interrupt?.value
  if (interrupt === undefined || !isAuthorizationInterrupt(value))
    throw new Error('Nobody was asked')
  expect(value).toMatchObject({ server: 'shop', tool: 'add' })
  const url = new URL(value.url)
  expect(url.pathname).toBe('/authorize')
  expect(server.inner.received).toEqual([])

  const wrong = 'http://127.0.0.1:3000/callback?code=abc&state=forged'
  const again = await newGraph().resume(authorizationResume(interrupt, wrong))
  const second: PendingInterrupt = again.interrupts[0] ?? {}
  expect(second.value).toMatchObject({ problem: expect.stringContaining('another') })
  expect(server.inner.received).toEqual([])
  if (!isAuthorizationInterrupt(second.value)) throw new Error('Nobody was asked')
  const { searchParams } = new URL(second.value.url)

  const callback = new URL('http://127.0.0.1:3000/callback?code=abc')
  callback.searchParams.set('state', searchParams.get('state') ?? '')
  const { answers } = await newGraph().resume(authorizationResume(second, callback))
  expect(answers['call-0']).toMatchObject({ status: 'success', content: '3' })
  expect(server.inner.executions('add')).toBe(1)
})
