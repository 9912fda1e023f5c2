// Starts the services of compose.yaml on this machine, with their commands and their variables.
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { McpClient } from '@x/mcp-client'
import { parse } from 'yaml'
import { Process, startNginx, startPostgres, startRedis } from './servers.ts'

export interface Service {
  readonly command: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly stop_grace_period?: string
  readonly depends_on?: readonly string[] | Readonly<Record<string, { readonly condition: string }>>
  readonly volumes?: readonly string[]
  readonly healthcheck?: object
}

export interface Compose {
  readonly services: Readonly<Record<string, Service>>
}

export async function readCompose(): Promise<Compose> {
  return parse(await readFile('compose.yaml', 'utf8'), { merge: true })
}

/** A service of this repository, which can be started again. */
export class Replica implements AsyncDisposable {
  readonly #start: () => Process
  /** All that its processes have written. */
  readonly lines: string[] = []
  #process: Process
  url = ''

  constructor(start: () => Process) {
    this.#start = start
    this.#process = start()
  }

  get port(): number {
    return Number(new URL(this.url).port)
  }

  /** Number of times that its processes began a step of the report. */
  count(step: string): number {
    const lines = [...this.lines, ...this.#process.lines]
    return lines.filter((line) => line.includes(`${step} begins`)).length
  }

  /** Resolves when it has begun a step so often. */
  async begins(step: string, times: number): Promise<void> {
    while (this.count(step) < times) await sleep(20)
  }

  async whenReady(): Promise<void> {
    const line = await this.#process.said(/^(?:http|Executes the queued tasks)/)
    this.url = new URL(line.slice(line.indexOf('http://'))).origin
  }

  async statusOf(path: string): Promise<number> {
    return (await fetch(this.url + path)).status
  }

  async end(signal?: NodeJS.Signals): Promise<number | null> {
    const code = await this.#process.end(signal)
    this.lines.push(...this.#process.lines)
    return code
  }

  async startAgain(): Promise<void> {
    this.#process = this.#start()
    await this.whenReady()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#process[Symbol.asyncDispose]()
  }
}

const TOKEN = 'a-token-for-this-test'

export async function startCluster() {
  await using stack = new AsyncDisposableStack()
  const redis = stack.use(await startRedis())
  const postgres = stack.use(await startPostgres())
  const { services } = await readCompose()
  const values: Readonly<Record<string, string>> = {
    MCP_TOKEN: TOKEN,
    GATEWAY_STATE_KEY: 'the same key for all processes of this test',
    REDIS_URL: redis.url,
    DATABASE_URL: postgres.url,
  }
  const start = (name: string): Process => {
    const service = services[name]
    if (!service) throw new Error(`compose.yaml has no ${name}`)
    const { command, entrypoint: [_node, ...own] = ['', BIN], environment = {} } = service
    // Only the variables that the service has.
    const given = Object.keys(environment).map((key) => [key, values[key]])
    const env = { PATH: process.env['PATH'], HOST: '127.0.0.1', PORT: '0', STEP_MS: '3000' }
    return new Process(process.execPath, [...own, ...command], {
      env: { ...env, ...Object.fromEntries(given) },
    })
  }
  const setup = stack.use(start('setup'))
  if ((await setup.exited) !== 0) throw new Error(setup.lines.join('\n'))
  const replica = async (name: string): Promise<Replica> => {
    const started = stack.use(new Replica(() => start(name)))
    await started.whenReady()
    return started
  }
  const gateways = await Promise.all(['gateway-1', 'gateway-2'].map(replica))
  const worker = await replica('worker')
  const nginx = stack.use(await startNginx(gateways.map(({ port }) => port)))
  const owned = stack.move()
  return {
    gateways,
    worker,
    nginx,
    /** A client that knows nginx only. */
    connect: (era: 'legacy' | 'modern'): McpClient => {
      const headers = { authorization: `Bearer ${TOKEN}` }
      return new McpClient({ url: `${nginx.url}/agents/mcp`, headers }, { era })
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Entry point of the image. */
const BIN = 'node_modules/@x/mcp-gateway/dist/cli.js'
