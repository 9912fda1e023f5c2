// A server that requires a token that only a person can get: the graph stops with the URL of the page.
import {
  Command,
  INTERRUPT,
  interrupt as askPerson,
  isInterrupted,
  MemorySaver,
} from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { createAuthProvider, memoryTokenStore } from '@x/mcp-transport/auth'
import {
  deferred,
  startModernServer,
  startScriptedServer,
  startTaskServer,
  type ScriptedEvent,
  startGuardedServer,
  type GuardedServer,
} from '@x/mcp-testing'
import { createAgent, createMiddleware } from 'langchain'
import { expect, test, vi } from 'vitest'
import {
  authorizationResume,
  authorizationToInterrupt,
  createMcpTools,
  elicitationResume,
  elicitationToInterrupt,
  isAuthorizationInterrupt,
  type ElicitationAnswer,
  type McpTool,
} from '../src/index.ts'
import type { PendingInterrupt } from '../src/graph/interrupt-value.ts'
import type { McpToolOptions } from '../src/tools/mcp-tool.ts'
import { toolFrom } from './answering-source.ts'
import { askingGraph, type AskingGraph } from './asking-graph.ts'
import { mcpToolsMiddleware } from '../src/middleware.ts'
import { ScriptedModel } from './scripted-model.ts'

interface Processes extends AsyncDisposable {
  /** Returns a tool as another process would make it. */
  tool(name: string, taskMode?: McpToolOptions['taskMode']): McpTool
}

function startProcesses(url: string): Processes {
  const store = memoryTokenStore() // shared by all processes
  const clients: McpClient[] = []
  return {
    tool: (name, taskMode) => {
      const provider = createAuthProvider({
        redirectUrl: 'http://127.0.0.1:3000/callback',
        redirect: () => undefined,
        clientId: 'agent',
        store,
      })
      const authorization = authorizationToInterrupt(provider, url)
      const elicitation = elicitationToInterrupt({ authorization })
      const { handlers } = elicitation
      const { authProvider } = authorization
      const source = new McpClient({ url }, { handlers, authProvider })
      clients.push(source)
      const server = { slug: 'shop' }
      return toolFrom({
        name,
        definition: { name },
        server,
        source,
        options: { elicitation, taskMode },
      })
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
    },
  }
}

/** Signs in on the page of a question. */
function signInResume(interrupt: PendingInterrupt): ReturnType<typeof authorizationResume> {
  const { value } = interrupt
  if (!isAuthorizationInterrupt(value)) throw new Error('No person was asked to sign in')
  const { searchParams } = new URL(value.url)
  const callback = new URL('http://127.0.0.1:3000/callback?code=abc')
  callback.searchParams.set('state', searchParams.get('state') ?? '')
  return authorizationResume(interrupt, callback)
}

test('interrupts the graph with the URL for a 401 that needs a person, and then sends the call once', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  const checkpointer = new MemorySaver()
  await using processes = startProcesses(server.url)
  const newGraph = (): AskingGraph =>
    askingGraph({
      kind: 'fanOutToolCalls',
      tools: [processes.tool('add')],
      calls: [{ name: 'add', args: { a: 1, b: 2 } }],
      checkpointer,
    })

  const { interrupts } = await newGraph().start()
  const [interrupt] = interrupts
  const value: unknown = interrupt?.value
  if (interrupt === undefined || !isAuthorizationInterrupt(value))
    throw new Error('No person was asked to sign in')
  expect(value).toMatchObject({ server: 'shop', tool: 'add' })
  const url = new URL(value.url)
  expect(url.pathname).toBe('/authorize')
  expect(inner.received).toEqual([])

  const wrong = 'http://127.0.0.1:3000/callback?code=abc&state=forged'
  const again = await newGraph().resume(authorizationResume(interrupt, wrong))
  const second: PendingInterrupt = again.interrupts[0] ?? {}
  expect(second.value).toMatchObject({ problem: expect.stringContaining('another') })
  expect(inner.received).toEqual([])
  const { answers } = await newGraph().resume(signInResume(second))
  expect(answers['call-0']).toMatchObject({ status: 'success', content: '3' })
  expect(inner.executions('add')).toBe(1)
})

/** A server with sessions that calls `onCall` for each call, and then ends the response stream without a result. */
async function startForgetfulServer(
  onCall: () => readonly ScriptedEvent[],
): Promise<{ readonly url: string } & AsyncDisposable> {
  return startScriptedServer({
    'server/discover': { status: 400, error: { code: -32601 } },
    initialize: {
      headers: { 'mcp-session-id': 'session-1' },
      result: {
        resultType: undefined,
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'shop', version: '1.0.0' },
      },
    },
    'tools/call': () => ({ events: ['id: 1\ndata:\n\n', ...onCall()], end: 'eof' }),
  })
}

const question = {
  id: 'q1',
  method: 'elicitation/create',
  params: { message: 'Who?', requestedSchema: { type: 'object', properties: {} } },
}

test.each(['before any question', 'after a question'])(
  'asks nobody to sign in for a call that was sent and lost its stream %s',
  async (when) => {
    const asked = deferred()
    let calls = 0
    await using inner = await startForgetfulServer(() => {
      calls++
      if (when === 'after a question') return [question, asked.promise]
      server.revoke()
      return []
    })
    await using server: GuardedServer = await startGuardedServer(inner)
    await using processes = startProcesses(server.url)
    const graph = askingGraph({
      kind: 'fanOutToolCalls',
      tools: [processes.tool('pay')],
      calls: [{ name: 'pay' }],
    })
    const first = await graph.start()
    let turn = await graph.resume(signInResume(first.interrupts[0] ?? {}))
    if (when === 'after a question') {
      const [interrupt] = turn.interrupts
      if (interrupt?.value.type !== 'mcp_elicitation') throw new Error('No question was asked')
      server.revoke()
      asked.resolve()
      const answer: ElicitationAnswer = { action: 'accept', content: {} }
      turn = await graph.resume(elicitationResume(interrupt ?? {}, { 'question-1': answer }))
    }
    expect(turn.interrupts).toEqual([])
    expect(turn.answers['call-0']).toMatchObject({
      status: 'error',
      content: expect.stringMatching(/may or may not have been executed/),
    })
    expect(calls).toBe(1)
  },
)

test.each(['wait', 'interrupt'] as const)(
  'continues the task of a call after a 401 that needs a person (taskMode: %s)',
  async (taskMode) => {
    await using inner = await startTaskServer()
    await using server = await startGuardedServer(inner)
    await using processes = startProcesses(server.url)
    const graph = askingGraph({
      kind: 'fanOutToolCalls',
      tools: [processes.tool('slow_compute', taskMode)],
      calls: [{ name: 'slow_compute' }],
    })
    const first = await graph.start()
    const signedIn = graph.resume(signInResume(first.interrupts[0] ?? {}))
    await inner.waitFor(({ rpcMethod, end }) => {
      return rpcMethod === (taskMode === 'wait' ? 'tasks/get' : 'tools/call') && end === 'complete'
    })
    server.revoke()
    let turn = await signedIn
    if (taskMode === 'interrupt') turn = await graph.resume({ [turn.interrupts[0]?.id ?? '']: {} })
    const again = graph.resume(signInResume(turn.interrupts[0] ?? {}))
    inner.complete('computed once')
    expect((await again).answers['call-0']).toMatchObject({ content: 'computed once' })
    expect(inner.runs).toEqual(['slow_compute'])
  },
)

test('stops if the list of tools needs a person, and uses the callback once in a new process', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  const [checkpointer, store] = [new MemorySaver(), memoryTokenStore()]
  const run = async (input: Command | { messages: string[] }) => {
    const provider = createAuthProvider({
      redirectUrl: 'http://127.0.0.1:3000/callback',
      redirect: () => undefined,
      clientId: 'agent',
      store,
    })
    const authorization = authorizationToInterrupt(provider, server.url)
    const finish = vi.spyOn(authorization, 'finish')
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url, authProvider: authorization.authProvider } },
      elicitation: elicitationToInterrupt({ authorization }),
    })
    const middleware = [
      mcpToolsMiddleware(mcp),
      createMiddleware({
        name: 'Approval',
        wrapModelCall(request, handler) {
          askPerson('approve')
          return handler(request)
        },
      }),
    ]
    const agent = createAgent({ model: new ScriptedModel(), middleware, checkpointer })
    const state = await agent.invoke(input, { configurable: { thread_id: 't1' } })
    const interrupts = isInterrupted(state) ? state[INTERRUPT] : []
    return { interrupts, text: state.messages.at(-1)?.text, finished: finish.mock.calls.length }
  }
  const asked = await run({ messages: ['call add {"a":1,"b":2}'] })
  const signIn = signInResume(asked.interrupts[0] ?? {})
  const approving = await run(new Command({ resume: signIn }))
  expect([approving.finished, approving.interrupts[0]?.value]).toEqual([1, 'approve'])
  const again = await run(new Command({ resume: true })) // the task is executed again, with the callback
  expect(again.finished).toBe(0)
  const end = await run(new Command({ resume: true })) // for the second model call
  expect(end.text).toBe('3')
})
