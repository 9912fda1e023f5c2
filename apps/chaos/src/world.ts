import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, startRedisServer } from '@x/internal/testing'
import type { RedisServer } from '@x/internal/testing'
import {
  CallLedger,
  seededFaults,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
} from '@x/mcp-testing'
import type { Exchange, LegacyServer, RecordingProxy, TestTool } from '@x/mcp-testing'
import { Child, temporaryFolder } from './processes.ts'
import type { ExchangeRecord, RunRecord } from './run-record.ts'
import type { Execution, ServiceSpec } from './service-process.ts'

/** A server that agents call. Each member but the first two is absent where it does not apply. */
interface ChaosServer {
  readonly name: string
  /** Agents connect to this proxy. */
  readonly proxy: RecordingProxy
  readonly restart?: () => Promise<void>
  /** A server with sessions that can be counted and forgotten. */
  readonly legacy?: LegacyServer
}

export interface WorldOptions {
  readonly seed: number
  readonly era: 'legacy' | 'modern' | 'both'
  /** Without the debug-state service and the gateway. */
  readonly serversOnly?: boolean
}

/** The servers and services of a run. */
export class World implements AsyncDisposable {
  readonly servers: ChaosServer[] = []
  /** Proxies of the servers and of the debug-state service. */
  readonly proxies: RecordingProxy[] = []
  /** The debug-state service and the replicas of the gateway. */
  readonly services: Child[] = []
  readonly ledger: CallLedger = new CallLedger()
  debugStateUrl: string | undefined
  redis: RedisServer | undefined
  /** True while the proxies inject faults. */
  faults = false
  readonly #options: WorldOptions
  readonly #run: RunRecord
  readonly #exchanges: { server: string; at: number; exchange: Exchange }[] = []
  readonly #stack = new AsyncDisposableStack()

  constructor(options: WorldOptions, run: RunRecord) {
    this.#options = options
    this.#run = run
  }

  get exchanges(): readonly ExchangeRecord[] {
    return this.#exchanges.map(({ exchange, ...rest }) => ({ ...exchange, ...rest }))
  }

  async start(principals: readonly string[]): Promise<void> {
    const { era, serversOnly = false } = this.#options
    const options = { ledger: this.ledger, tools: [pay] }
    if (era !== 'modern') {
      for (const answerAs of ['auto', 'sse'] as const) {
        const legacy = this.#stack.use(await startLegacyServer({ ...options, answerAs }))
        const restart = (): Promise<void> => legacy.restart()
        await this.#addServer(`legacy-${answerAs}`, legacy.url, { legacy, restart })
      }
    }
    if (era !== 'legacy') {
      const server = this.#stack.use(await startModernServer(options))
      await this.#addServer('modern', server.url, { restart: () => server.restart() })
    }
    if (serversOnly) return
    await this.#startDebugState()
    if (era !== 'modern') await this.#startGateway(principals)
  }

  async #proxy(target: string | (() => string)): Promise<RecordingProxy> {
    const proxy = this.#stack.use(await startRecordingProxy(target, { keepExchanges: 1000 }))
    const seed = this.#options.seed + this.proxies.length
    proxy.inject(seededFaults(seed, { match: () => this.faults }))
    this.proxies.push(proxy)
    return proxy
  }

  async #addServer(
    name: string,
    target: string | (() => string),
    rest: Pick<ChaosServer, 'legacy' | 'restart'> = {},
  ): Promise<void> {
    const proxy = await this.#proxy(target)
    proxy.on(({ type, exchange }) => {
      if (type === 'started') this.#exchanges.push({ server: name, at: this.#run.now(), exchange })
    })
    this.servers.push({ name, proxy, ...rest })
  }

  /** Starts a service. Returns its URL. */
  async #startService(name: string, spec: ServiceSpec): Promise<string> {
    const entry = new URL('service-process.ts', import.meta.url)
    const onMessage = ({ key, principal }: Execution): void => {
      const call = { tool: 'pay', args: { key }, principal, era: 'legacy' } as const
      this.ledger.advance(this.ledger.receive(call), 'running')
    }
    const service = new Child({ name, entry, spec, crashes: this.#run.crashes, onMessage })
    await service.start()
    this.services.push(service)
    return `http://127.0.0.1:${spec.port}`
  }

  async #startDebugState(): Promise<void> {
    const folder = temporaryFolder(this.#stack)
    const spec = { type: 'debug-state', port: await freePort(), file: join(folder, 'db') } as const
    const proxy = await this.#proxy(await this.#startService('debug-state', spec))
    this.debugStateUrl = proxy.url
  }

  async #startGateway(principals: readonly string[]): Promise<void> {
    const redis = await startRedisServer()
    if (!redis) {
      this.#run.notes.push(
        'The gateway was left out: there is no redis-server on the PATH. Install it ' +
          '(Debian: apt-get install redis-server) to include the gateway.',
      )
      return
    }
    this.redis = this.#stack.use(redis)
    const spec = { type: 'gateway', redisUrl: redis.url, principals } as const
    const replicas = await Promise.all(
      ['replica-1', 'replica-2'].map(async (name) =>
        this.#startService(name, { ...spec, port: await freePort() }),
      ),
    )
    let turn = 0
    await this.#addServer('gateway', () => `${replicas[turn++ % replicas.length]}/mcp`)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }
}

/** The tool that agents call. It takes a moment, reports progress, and returns who called. */
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
