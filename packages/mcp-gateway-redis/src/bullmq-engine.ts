import { hash } from 'node:crypto'
import { check, type Checks } from '@x/internal'
import { toRedisError } from '@x/internal/redis'
import { GatewayError, type ExecuteRun, type RunEngine } from '@x/mcp-gateway'
import { assertGatewayOptions } from '@x/mcp-gateway/adapter'
import { Queue, WaitingError, Worker, type Job } from 'bullmq'
import { createClient } from 'redis'

export interface BullmqEngineOptions {
  /** `redis[s]://[[user][:password]@]host[:port][/database]`. @default 'redis://127.0.0.1:6379' */
  readonly url?: string | undefined
  /** First part of all keys, as in `redisStore()`. Processes with the same prefix share their runs. @default 'mcp-gateway' */
  readonly prefix?: string | undefined
  /** Number of runs that this process executes at the same time. @default 10 */
  readonly concurrency?: number | undefined
  /** Called with errors of connections. They are repaired without further action. @default a process warning */
  readonly onWarning?: ((error: unknown) => void) | undefined
}

/** An engine that executes runs in any process that works. */
export interface BullmqEngine extends Required<RunEngine>, AsyncDisposable {
  /** Closes the connections. */
  close(): Promise<void>
}

const optionChecks: Checks<BullmqEngineOptions> = {
  url: check.string,
  prefix: check.string,
  concurrency: check.number(1),
  onWarning: check.func,
}

/** A process that does not renew its lock for this time counts as dead. */
const LOCK_MS = 5000
/** Time between two checks for runs without a lock. */
export const STALLED_MS = 2500
/** Limit of one attempt to connect. */
const CONNECT_MS = 5000
const NAME = 'runs'
/** The gateway counts the attempts of a run itself, and ends a run that kills every process. */
const UNLIMITED = 1_000_000

/**
 * Creates an engine that executes runs on BullMQ and Redis (6.2 or newer): each run in one of the processes that call
 * `work()`. If that process dies or freezes, another one executes the run again within 10 s. Redis needs
 * `maxmemory-policy noeviction`.
 *
 * It connects on first use.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or have a wrong value
 * @example
 * ```ts
 * import { createGateway } from '@x/mcp-gateway'
 * import { bullmqEngine, redisStore } from '@x/mcp-gateway-redis'
 *
 * const url = process.env['REDIS_URL']
 * const stateKey = process.env['GATEWAY_STATE_KEY'] // the same in all processes
 * const [store, engine] = [redisStore({ url }), bullmqEngine({ url })]
 * const gateway = createGateway({ store, engine, stateKey })
 * await gateway.work() // in each process that executes tasks: until gateway.close()
 * ```
 */
export function bullmqEngine(options: BullmqEngineOptions = {}): BullmqEngine {
  assertGatewayOptions('bullmqEngine()', options, optionChecks)
  return new Engine(options)
}

type Client = ReturnType<typeof newClient>

interface Opened {
  readonly queue: Queue<JobData>
  readonly client: Client
}

/** Data of a job. The run itself is in the store of the gateway. */
interface JobData {
  readonly runId: string
}

class Engine implements BullmqEngine {
  readonly #prefix: string
  readonly #url: string
  readonly #concurrency: number
  readonly #onWarning: (error: unknown) => void
  readonly #attempts = new Set<Attempt>()
  readonly #clients = new Set<Client>()
  #opened: Promise<Opened> | undefined
  #isClosed = false

  constructor(options: BullmqEngineOptions) {
    const { url = 'redis://127.0.0.1:6379', prefix = 'mcp-gateway' } = options
    const { concurrency = 10, onWarning = warn } = options
    this.#url = url
    // With braces, all keys are in one slot of a cluster, also beside the keys of the store.
    this.#prefix = `{${prefix}}:engine`
    this.#concurrency = concurrency
    this.#onWarning = onWarning
  }

  async submit(runId: string): Promise<void> {
    const { queue } = await this.#open()
    try {
      // BullMQ ignores a job whose id waits or is executed. Ids must have no colon.
      const jobId = hash('sha256', runId)
      await queue.add(NAME, { runId }, { jobId, removeOnComplete: true, removeOnFail: true })
    } catch (cause) {
      throw new GatewayError('UNAVAILABLE', 'The run could not be queued in Redis', { cause })
    }
  }

  async countQueued(): Promise<number> {
    const { queue } = await this.#open()
    return queue.count()
  }

  async cancel(runId: string): Promise<void> {
    this.#stop(({ runId: own }) => own === runId, 'cancelled')
    const { client } = await this.#open()
    await client.publish(`${this.#prefix}:cancel`, runId)
  }

  async work(execute: ExecuteRun): Promise<() => Promise<void>> {
    const connection = await this.#connect()
    const clients = [connection]
    const disconnect = (): void => clients.forEach((client) => this.#disconnect(client))
    let worker: Worker<JobData> | undefined
    try {
      const subscriber = await this.#connect()
      clients.push(subscriber)
      await subscriber.subscribe(`${this.#prefix}:cancel`, (runId) => {
        this.#stop((attempt) => attempt.runId === runId, 'cancelled')
      })
      worker = new Worker<JobData>(NAME, (job, token) => this.#execute(job, token, execute), {
        connection,
        prefix: this.#prefix,
        concurrency: this.#concurrency,
        lockDuration: LOCK_MS,
        stalledInterval: STALLED_MS,
        maxStalledCount: UNLIMITED,
      })
      worker.on('error', this.#onWarning)
      worker.on('lockRenewalFailed', (jobs) => {
        this.#stop(({ jobId = '' }) => jobs.includes(jobId), 'lost')
      })
      await worker.waitUntilReady()
    } catch (cause) {
      // A worker that lost its connection while it started never begins.
      await worker?.close(true).catch(() => {})
      disconnect()
      throw this.#toGatewayError(cause)
    }
    const working = worker
    return async () => {
      const closing = working.close()
      this.#stop(() => true, 'stopping')
      await closing
      disconnect()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const opened = await this.#opened?.catch(() => undefined)
    await opened?.queue.close()
    for (const client of this.#clients) this.#disconnect(client)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #execute(job: Job<JobData>, token: string | undefined, execute: ExecuteRun): Promise<void> {
    const { runId } = job.data
    const controller = new AbortController()
    const { signal } = controller
    const attempt = { runId, jobId: job.id, controller }
    this.#attempts.add(attempt)
    try {
      const end = await execute(runId, { signal })
      if (end === 'ended' || signal.reason === 'lost') return
    } finally {
      this.#attempts.delete(attempt)
    }
    // Another process goes on at once.
    await job.moveToWait(token)
    throw new WaitingError()
  }

  #stop(isMeant: (attempt: Attempt) => boolean, why: Stop): void {
    for (const attempt of this.#attempts) if (isMeant(attempt)) attempt.controller.abort(why)
  }

  /** @throws GatewayError `UNAVAILABLE`, `CLOSED` */
  #open(): Promise<Opened> {
    this.#opened ??= this.#openQueue().catch((error: unknown) => {
      this.#opened = undefined
      throw error
    })
    return this.#opened
  }

  async #openQueue(): Promise<Opened> {
    const client = await this.#connect()
    const queue = new Queue<JobData>(NAME, { connection: client, prefix: this.#prefix })
    queue.on('error', this.#onWarning)
    try {
      await queue.waitUntilReady()
      return { queue, client }
    } catch (cause) {
      // A queue that lost its connection while it started never works.
      await queue.close().catch(() => {})
      this.#disconnect(client)
      throw this.#toGatewayError(cause)
    }
  }

  async #connect(): Promise<Client> {
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The engine was closed')
    let isConnected = false
    // The first connection fails at once, so that the caller learns of it.
    const client = newClient(this.#url, () => isConnected)
    client.on('error', (error: unknown) => {
      if (isConnected) this.#onWarning(error)
    })
    // Redis may accept the connection, and not answer.
    const late = setTimeout(() => this.#disconnect(client), CONNECT_MS)
    try {
      await client.connect()
    } catch (cause) {
      throw this.#toGatewayError(cause)
    } finally {
      clearTimeout(late)
    }
    isConnected = true
    this.#clients.add(client)
    return client
  }

  #toGatewayError(cause: unknown): GatewayError {
    if (GatewayError.is(cause)) return cause
    const { code, message } = toRedisError(cause, URL.parse(this.#url)?.host ?? 'the given URL')
    return new GatewayError(code === 'DENIED' ? 'CONFIG' : 'UNAVAILABLE', message, { cause })
  }

  #disconnect(client: Client): void {
    this.#clients.delete(client)
    if (client.isOpen) client.destroy()
  }
}

/** Why an attempt stops: the run was cancelled, another process has it, or this process ends. */
type Stop = 'cancelled' | 'lost' | 'stopping'

/** An execution of a run in this process. */
interface Attempt {
  readonly runId: string
  readonly jobId: string | undefined
  /** Aborts with a `Stop`. */
  readonly controller: AbortController
}

// Its type is simpler than that of createClient(), which has type parameters.
function newClient(url: string, reconnects: () => boolean) {
  return createClient({
    url,
    socket: {
      reconnectStrategy: (retries) => reconnects() && Math.min(50 * 2 ** retries, 2000),
    },
  })
}

function warn(cause: unknown): void {
  process.emitWarning(
    new GatewayError('UNAVAILABLE', 'The engine lost Redis for a while', { cause }),
  )
}
