// A sign-in by code in a graph: the graph stops with the code, and goes on when the user has entered it.
import { MemorySaver } from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { deviceOAuth, memoryTokenStore, type TokenStore } from '@x/mcp-transport/auth'
import { startModernServer } from '@x/mcp-testing'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import {
  authorizationResume,
  authorizationToInterrupt,
  elicitationToInterrupt,
  isAuthorizationInterrupt,
  type McpAuthorizationInterrupt,
} from '../src/index.ts'
import { toolFrom } from './answering-source.ts'
import { askingGraph, type AskingGraph, type Calling, type Turn } from './asking-graph.ts'
import { startGuardedServer } from './guarded-server.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
afterEach(() => void vi.useRealTimers())

/** As much time as a person needs: more than the five seconds between two token requests. */
const passTime = (): unknown => vi.setSystemTime(Date.now() + 6000)

interface Processes extends AsyncDisposable {
  /** Returns the graph in a new process. They share the checkpointer, and `store` if there is one. */
  start(calls?: readonly Calling[]): AskingGraph
  readonly checkpointer: MemorySaver
}

function processes(url: string, store?: TokenStore): Processes {
  const clients: McpClient[] = []
  const checkpointer = new MemorySaver()
  return {
    checkpointer,
    start(calls = [{ name: 'add', args: { a: 1, b: 2 } }]) {
      const provider = deviceOAuth({
        clientId: 'agent',
        store: store ?? memoryTokenStore(),
        onCode: () => {
          throw new Error('The code is in the interrupt')
        },
      })
      const authorization = authorizationToInterrupt(provider, url)
      const { authProvider } = authorization
      const elicitation = elicitationToInterrupt({ authorization })
      const source = new McpClient({ url }, { handlers: elicitation.handlers, authProvider })
      clients.push(source)
      const definition = { name: 'add' }
      const own = { name: 'add', definition, server: { slug: 'shop' }, source }
      return askingGraph({
        kind: 'fanOutToolCalls',
        tools: [toolFrom({ ...own, options: { elicitation } })],
        calls,
        checkpointer,
      })
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
    },
  }
}

/** The question of a graph that stopped, and the value that resumes it. */
function askedIn({ interrupts }: Turn): {
  readonly value: McpAuthorizationInterrupt
  readonly resume: ReturnType<typeof authorizationResume>
} {
  const [interrupt] = interrupts
  const value: unknown = interrupt?.value
  if (interrupt === undefined || !isAuthorizationInterrupt(value)) {
    throw new Error('No person was asked to sign in')
  }
  return { value, resume: authorizationResume(interrupt) }
}

test('stops with the code and its page, and sends the call once the user has entered it', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const { origin } = new URL(server.url)
  const expiresAt = Date.now() + 600_000
  const first = askedIn(await agents.start().start())
  expect(first.value).toMatchObject({
    server: 'shop',
    tool: 'add',
    url: `${origin}/activate?user_code=CODE-1`,
    device: {
      userCode: 'CODE-1',
      url: `${origin}/activate`,
      completeUrl: `${origin}/activate?user_code=CODE-1`,
      expiresAt,
    },
  })

  passTime()
  const tooEarly = askedIn(await agents.start().resume(first.resume))
  expect(tooEarly.value.device).toEqual(first.value.device)
  expect(inner.received).toEqual([])

  passTime()
  server.enterCode('grant')
  const { answers } = await agents.start().resume(tooEarly.resume)
  expect(answers['call-0']).toMatchObject({ status: 'success', content: '3' })
  expect([server.codes, inner.executions('add')]).toEqual([1, 1])
  const { storage, writes } = agents.checkpointer
  const kept = textsIn([storage, writes]).join()
  expect(kept).toContain('CODE-1')
  expect(kept).not.toMatch(/device-secret|granted-/)
})

/** All texts of a checkpointer. It keeps JSON as bytes. */
function textsIn(value: unknown): readonly string[] {
  if (value instanceof Uint8Array) return [Buffer.from(value).toString()]
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(textsIn)
  return [String(value)]
}

test('asks two calls for one code', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const calls = [1, 2].map((a) => ({ name: 'add', args: { a, b: 2 } }))
  const { interrupts } = await agents.start(calls).start()
  const asked = interrupts.map((one) => askedIn({ interrupts: [one], answers: {} }))
  expect(asked.map(({ value }) => value.device?.userCode)).toEqual(['CODE-1', 'CODE-1'])
  passTime()
  server.enterCode('grant')
  const resume = Object.assign({}, ...asked.map((one) => one.resume))
  const { answers } = await agents.start(calls).resume(resume)
  expect(Object.values(answers).map(({ content }) => content)).toEqual(['3', '4'])
})

test('gets another code in a process that does not have the first one', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url)
  const first = askedIn(await agents.start().start())
  const graph = agents.start()
  const second = askedIn(await graph.resume(first.resume))
  expect(second.value.device?.userCode).toBe('CODE-2')
  passTime()
  server.enterCode('grant')
  expect((await graph.resume(second.resume)).answers['call-0']).toMatchObject({ content: '3' })
})

test('gets another code when the first one has expired', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const first = askedIn(await agents.start().start())
  vi.setSystemTime(first.value.device?.expiresAt ?? 0)
  const second = askedIn(await agents.start().resume(first.resume))
  expect(second.value.device?.userCode).toBe('CODE-2')
})

test('tells the model that the user refused access', async () => {
  await using inner = await startModernServer()
  await using server = await startGuardedServer(inner)
  await using agents = processes(server.url, memoryTokenStore())
  const first = askedIn(await agents.start().start())
  passTime()
  server.enterCode('deny')
  const { answers } = await agents.start().resume(first.resume)
  expect(answers['call-0']).toMatchObject({ status: 'error' })
  expect(inner.received).toEqual([])
})
