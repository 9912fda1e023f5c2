// The gateways that are attacked, with the agents behind them.
import { setTimeout as sleep } from 'node:timers/promises'
import { startRedisServer, temporaryFolder } from '@x/internal/testing'
import {
  bearerAuth,
  createGateway,
  DiskGatewayStore,
  MemoryGatewayStore,
  type AgentCall,
  type AgentUpdate,
  type Gateway,
  type GatewayOptions,
  type GatewayStore,
} from '@x/mcp-gateway'
import { redisStore } from '@x/mcp-gateway-redis'
import { AgentsAtHand, type Behaviour } from '../../../packages/mcp-gateway/test/agents-at-hand.ts'
import { at, modern, Session, textOf, toAnswer, type Address } from './client.ts'
import { probe, type Probe } from './probe.ts'

/** Tokens by the names of their callers. `carl` may call nothing. */
export const TOKENS = {
  ada: 'token-of-ada-0123456789',
  bob: 'token-of-bob-0123456789',
  carl: 'token-of-carl-012345678',
} as const

/** Accepts the three tokens. */
export function knownCallers(): ReturnType<typeof bearerAuth> {
  return bearerAuth({
    ada: { token: TOKENS.ada, scopes: ['*'] },
    bob: { token: TOKENS.bob, scopes: ['*'] },
    carl: { token: TOKENS.carl },
  })
}

/** A gateway that listens on loopback. */
export interface Target extends Address {
  readonly gateway: Gateway
  readonly agents: AgentsAtHand
  /** Lines of the log. */
  readonly log: readonly string[]
  /** Number of runs of an agent that began with this text. */
  runsOf(text: string): number
}

function textIn({ input }: AgentCall): string {
  return input.kind === 'message' ? input.text : JSON.stringify(input.value)
}

/** Behaviour of the agents, by their names. */
export const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  *echo(call) {
    yield { type: 'done', text: textIn(call) }
  },
  /** Asks one question, and answers with the answer. */
  *ask(call) {
    const { resume } = call
    if (resume) return yield { type: 'done', text: JSON.stringify(resume.answers) }
    return yield { type: 'asked', questions: [{ id: 'q', message: 'Which?' }], state: { n: 1 } }
  },
  /** Returns a file. */
  *draw(call) {
    const data = Buffer.from(`secret of ${call.principal.id}: ${textIn(call)}`)
    yield { type: 'file', file: { name: 'drawing.txt', mimeType: 'text/plain', data } }
    yield { type: 'done', text: 'drawn' }
  },
  /** Works until it is stopped. */
  async *work(call): AsyncGenerator<AgentUpdate> {
    yield { type: 'status', text: 'works' }
    await sleep(600_000, undefined, { signal: call.signal })
  },
  /** Lasts a moment. */
  async *pay(call): AsyncGenerator<AgentUpdate> {
    await sleep(50, undefined, { signal: call.signal })
    yield { type: 'done', text: `paid ${textIn(call)}` }
  },
}

export type TargetOptions = GatewayOptions & { readonly agents?: never }

/** Starts a gateway on a free port. It ends with the stack. Rates have no limit by default. */
export async function startTarget(
  stack: AsyncDisposableStack,
  { sources, ...options }: TargetOptions = {},
): Promise<Target> {
  const agents = new AgentsAtHand(BEHAVIOURS)
  const log: string[] = []
  const write = (...line: readonly unknown[]): void => void log.push(line.map(String).join(' '))
  const gateway = createGateway({
    sources: sources ?? [agents],
    log: { warn: write, error: write },
    requestsPerMinute: 0,
    ...options,
    http: { shutdownGraceMs: 100, ...options.http },
  })
  stack.defer(() => gateway.close())
  const { port, url } = await gateway.listen({ port: 0 })
  return {
    gateway,
    agents,
    log,
    port,
    url,
    runsOf: (text) => agents.calls.filter((each) => !each.resume && textIn(each) === text).length,
  }
}

/** Requests of an honest client of each protocol. @param tool a tool that answers with its message */
export function honestClients(
  name: string,
  address: Address,
  { token, tool = 'echo' }: { readonly token?: string; readonly tool?: string } = {},
): readonly Probe[] {
  const params = { name: tool, arguments: { message: 'honest' } }
  return [
    probe(
      `${name} serves a client with a session`,
      async () => {
        const session = await Session.open(address, { token })
        const answer = await session.ask('tools/call', params)
        return [textOf(answer), await session.end(), answer.text]
      },
      ([text, ended]) => text === 'honest' && ended === 200,
    ),
    probe(
      `${name} serves a client of 2026-07-28`,
      async () => {
        const listed = await modern(address, 'tools/list', { token })
        const called = await modern(address, 'tools/call', { ...params, token })
        return { tools: at(listed, 'result', 'tools'), called }
      },
      ({ tools, called }) => Array.isArray(tools) && textOf(called) === 'honest',
    ),
    probe(
      `${name} tells its health`,
      async () => (await toAnswer(await fetch(new URL('/readyz', address.url)))).text,
      (text) => text === '{"status":"ok"}',
    ),
  ]
}

/** The stores, by their names. Redis only if it is on this machine. They end with the stack. */
export async function* allStores(
  stack: AsyncDisposableStack,
): AsyncGenerator<[string, GatewayStore]> {
  yield ['memory', new MemoryGatewayStore()]
  const folder = stack.use(await temporaryFolder())
  yield ['SQLite', stack.adopt(new DiskGatewayStore(folder.path), (store) => store.close())]
  const redis = await startRedisServer()
  if (!redis) return
  stack.use(redis)
  yield [
    'Redis',
    stack.adopt(redisStore({ url: redis.url, onWarning() {} }), (store) => store.close()),
  ]
}
