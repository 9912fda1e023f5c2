import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { freePort } from './free-port.ts'
import { programIn, startKept } from './kept-process.ts'
import type { KeptProcess } from './kept-process.ts'

/** Number of attempts with other ports if another process takes the first one. */
const PORT_ATTEMPTS = 5

/** Ends a start that hangs. */
const START_MS = 240_000

/** Options of {@link startRedisServer}. */
export interface RedisServerOptions {
  /** More settings, as on the command line: `['--requirepass', 'secret']`. @default none */
  readonly args?: readonly string[] | undefined
  /** `PATH` and `REQUIRE_REDIS`. @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

/** A running `redis-server`. Unless `args` say otherwise, it loses all data when it ends. */
export interface RedisServer extends AsyncDisposable {
  /** `redis://127.0.0.1:{port}`; the port stays. */
  readonly url: string
  readonly pid: number
  /** Ends the process, by default like a crash. Resolves when it has exited. */
  stop(signal?: 'SIGKILL' | 'SIGTERM'): Promise<void>
  /** Starts a stopped server again. Resolves when it accepts connections. */
  start(): Promise<void>
  /** Stops the process: it accepts connections and does not answer. */
  pause(): void
  resume(): void
}

/**
 * Starts `redis-server` on a free port of 127.0.0.1, without persistence. Resolves when it accepts connections.
 * Disposing of it kills only that process. Without a `redis-server` on the `PATH`, returns `undefined` and
 * writes a line to stderr.
 *
 * @throws if it does not start in 4 minutes, with its output; also if there is none and `REQUIRE_REDIS` is set, so
 *   that no tests are left out by mistake
 */
export async function startRedisServer(
  options: RedisServerOptions = {},
): Promise<RedisServer | undefined> {
  const { args = [], env = process.env } = options
  const program = programIn((env['PATH'] ?? '').split(delimiter), 'redis-server')
  if (program === undefined) {
    const message = 'There is no redis-server on the PATH'
    if (env['REQUIRE_REDIS']) throw new Error(`${message}, and REQUIRE_REDIS is set`)
    process.stderr.write(`${message}: everything that needs Redis is left out\n`)
    return undefined
  }
  const folder = await mkdtemp(join(tmpdir(), 'redis-'))
  const launch = (port: number): Promise<KeptProcess> =>
    startKept([program, ...settings(port, folder), ...args], {
      readyLine: 'Ready to accept connections',
      startMs: START_MS,
      killSignal: 'KILL',
      uid: undefined,
    })
  try {
    const { port, running } = await onFreePort(launch)
    return handleOf({ port, running, folder, launch })
  } catch (error) {
    await rm(folder, { recursive: true })
    throw error
  }
}

interface Parts {
  readonly port: number
  readonly running: KeptProcess
  readonly folder: string
  readonly launch: (port: number) => Promise<KeptProcess>
}

function handleOf({ port, running: first, folder, launch }: Parts): RedisServer {
  let running: KeptProcess | undefined = first
  async function stop(name: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const stopped = running
    if (stopped !== undefined && name !== 'SIGKILL') {
      signal(name)
      await stopped.ended
    }
    running = undefined
    await stopped?.kill()
  }
  function signal(name: NodeJS.Signals): void {
    if (running === undefined) throw new Error('The redis-server is stopped')
    process.kill(running.pid, name)
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return running?.pid ?? 0
    },
    stop,
    async start() {
      running ??= await launch(port)
    },
    pause: () => signal('SIGSTOP'),
    resume: () => signal('SIGCONT'),
    async [Symbol.asyncDispose]() {
      await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function onFreePort(launch: Parts['launch']): Promise<Pick<Parts, 'port' | 'running'>> {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort()
    try {
      return { port, running: await launch(port) }
    } catch (error) {
      const isTaken = error instanceof Error && error.message.includes('already in use')
      if (!isTaken || attempt >= PORT_ATTEMPTS) throw error
    }
  }
}

function settings(port: number, folder: string): readonly string[] {
  const text = `--bind 127.0.0.1 --port ${port} --daemonize no --appendonly no`
  return [...text.split(' '), '--dir', folder, '--save', '']
}
