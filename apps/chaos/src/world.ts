import type { ChildProcess } from 'node:child_process'
import { createServer } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, startRedisServer } from '@x/internal/testing'
import {
  CallLedger,
  lossForms,
  seededFaults,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
} from '@x/mcp-testing'
import type { Exchange, RecordingProxy, TestTool } from '@x/mcp-testing'
import type { Execution, ExchangeRecord } from './checks.ts'
import { messageOf } from './child.ts'
import type { Processes } from './child.ts'
import type { ServiceSpec } from './service-process.ts'

/** Which servers take part. */
export type EraChoice = 'legacy' | 'modern' | 'both'

/** A server that agents call, behind its proxy. */
interface ChaosServer {
  readonly name: string
  /** Where agents connect to. */
  readonly proxy: RecordingProxy
  /** Ids of the open sessions; absent where sessions are not counted. */
  readonly sessions?: () => readonly string[]
  readonly restart?: () => Promise<void>
  /** Forgets its sessions, and refuses them from now on in a form that a server of the field has. */
  readonly forget?: (random: () => number) => void
}

/** The servers and services of a run. */
export interface World extends AsyncDisposable {
  readonly servers: readonly ChaosServer[]
  /** Of the servers and the debug-state service. */
  readonly proxies: readonly RecordingProxy[]
  /** The debug-state service and the replicas of the gateway. */
  readonly services: readonly Service[]
  readonly debugStateUrl: string | undefined
  /** Holds Redis for a while; absent without Redis. */
  readonly pauseRedis?: (ms: number) => Promise<void>
  executions(): readonly Execution[]
  exchanges(): readonly ExchangeRecord[]
  /** Starts and stops the faults of the proxies. */
  faults: boolean
}

/** Ways in which a server refuses a session that it does not know, none of them ambiguous. */
const lostForms = Object.values(lossForms).filter(({ verdict }) => verdict === 'lost')

export interface WorldOptions {
  readonly seed: number
  readonly era: EraChoice
  readonly principals: readonly string[]
  readonly processes: Processes
  /** Whether the debug-state service and the gateway take part. */
  readonly services: boolean
  /** Milliseconds on the clock of the run. */
  readonly now: () => number
}

/** A process that can be killed and started again on its port. */
class Service {
  readonly name: string
  readonly url: string
  readonly #processes: Processes
  readonly #spec: ServiceSpec
  #child: ChildProcess | undefined

  constructor(processes: Processes, name: string, spec: ServiceSpec) {
    this.name = name
    this.url = `http://127.0.0.1:${spec.port}`
    this.#processes = processes
    this.#spec = spec
  }

  async start(): Promise<void> {
    const entry = new URL('service-process.ts', import.meta.url)
    this.#child = this.#processes.fork(entry, this.name, this.#spec)
    await messageOf(this.#child, 'ready')
  }

  async kill(): Promise<void> {
    if (this.#child) await this.#processes.kill(this.#child)
  }

  async stop(): Promise<void> {
    if (this.#child) await this.#processes.release(this.#child)
  }
}

export async function startWorld(options: WorldOptions): Promise<World> {
  const { seed, era, processes, principals } = options
  const stack = new AsyncDisposableStack()
  try {
    const ledger = new CallLedger()
    const gatewayCalls: Execution[] = []
    const recorded: {
      readonly server: string
      readonly at: number
      readonly exchange: Exchange
    }[] = []
    const servers: ChaosServer[] = []
    let faults = false

    const proxied = async (
      name: string,
      target: string | (() => string),
      rest: Omit<ChaosServer, 'name' | 'proxy'> = {},
    ): Promise<void> => {
      const proxy = stack.use(await startRecordingProxy(target, { keepExchanges: 1000 }))
      proxy.inject(seededFaults(seed + servers.length, { match: () => faults }))
      proxy.on(({ type, exchange }) => {
        if (type === 'started') recorded.push({ server: name, at: options.now(), exchange })
      })
      servers.push({ name, proxy, ...rest })
    }

    if (era !== 'modern') {
      for (const answerAs of ['json', 'sse'] as const) {
        const server = stack.use(await startLegacyServer({ ledger, tools: [pay], answerAs }))
        await proxied(`legacy-${answerAs}`, server.url, {
          sessions: () => server.sessions,
          restart: () => server.restart(),
          forget(random) {
            const form = lostForms[Math.floor(random() * lostForms.length)]
            if (form) server.lossForm = form
            server.forgetSessions()
          },
        })
      }
    }
    if (era !== 'legacy') {
      const server = stack.use(await startModernServer({ ledger, tools: [pay] }))
      await proxied('modern', server.url, { restart: () => server.restart() })
    }

    const services: Service[] = []
    const proxies = servers.map(({ proxy }) => proxy)
    let debugStateUrl: string | undefined
    if (options.services) {
      const folder = await mkdtemp(join(tmpdir(), 'chaos-'))
      stack.defer(() => rm(folder, { recursive: true, force: true }))
      const file = join(folder, 'debug-state.db')
      const spec: ServiceSpec = { type: 'debug-state', port: await freePort(), file }
      const service = new Service(processes, 'debug-state', spec)
      await service.start()
      services.push(service)
      const proxy = stack.use(await startRecordingProxy(service.url, { keepExchanges: 10 }))
      proxy.inject(seededFaults(seed + 100, { match: () => faults }))
      proxies.push(proxy)
      debugStateUrl = proxy.url
    }

    const redis = options.services && era !== 'modern' ? await startRedisServer() : undefined
    if (redis) {
      stack.use(redis)
      const ledgerUrl = await startGatewayLedger(stack, gatewayCalls)
      const gateway = { type: 'gateway', redisUrl: redis.url, ledgerUrl, principals } as const
      const replicas: Service[] = []
      for (const name of ['replica-1', 'replica-2']) {
        replicas.push(new Service(processes, name, { ...gateway, port: await freePort() }))
      }
      await Promise.all(replicas.map((replica) => replica.start()))
      services.push(...replicas)
      let turn = 0
      await proxied('gateway', () => `${replicas[turn++ % replicas.length]?.url}/mcp`)
    }
    const pauseRedis =
      redis &&
      (async (ms: number): Promise<void> => {
        redis.pause()
        await sleep(ms)
        redis.resume()
      })
    const owned = stack.move()
    return {
      servers,
      proxies,
      services,
      debugStateUrl,
      ...(pauseRedis && { pauseRedis }),
      executions: () => [
        ...ledger.entries.flatMap(({ key, principal, executed }) =>
          executed ? [{ key, principal }] : [],
        ),
        ...gatewayCalls,
      ],
      exchanges: () =>
        recorded.map(({ server, at, exchange }) => ({
          ...exchange,
          server,
          at,
          complete: exchange.end === 'complete' && exchange.status !== undefined,
          delivered: exchange.delivered !== 'none',
        })),
      get faults() {
        return faults
      },
      set faults(value) {
        faults = value
      },
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    }
  } catch (error) {
    await stack.disposeAsync()
    throw error
  }
}

/** The tool that agents call: it takes a moment, reports progress with its key, and says who called. */
const pay: TestTool = {
  name: 'pay',
  description: 'Pays once',
  inputSchema: { type: 'object', properties: { key: { type: 'string' } }, required: ['key'] },
  annotations: { readOnlyHint: false, idempotentHint: false },
  async run({ key }, context) {
    await context.progress(1, 2, String(key))
    await sleep(Number(/\d+$/.exec(String(key))?.[0] ?? 0) % 20)
    await context.progress(2, 2, String(key))
    return { structuredContent: { key, principal: context.principal } }
  },
}

/** Records what the replicas execute. */
async function startGatewayLedger(
  stack: AsyncDisposableStack,
  calls: Execution[],
): Promise<string> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => {
      calls.push(JSON.parse(body))
      response.end()
    })
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  stack.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${port}/`
}
