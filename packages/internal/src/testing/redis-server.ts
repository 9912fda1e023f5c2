import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'

/** Number of attempts with other ports if another process takes the first one. */
const PORT_ATTEMPTS = 5

/**
 * Prints the process id of the server, and ends the server when the input ends: a killed parent closes that
 * pipe. It closes its own output, so that the pipe ends with the server.
 */
const KEEPER =
  '"$@" </dev/null 2>&1 & echo "pid $!"; exec >&- 2>&-; cat >/dev/null; kill -9 $!; wait $!'

/** Options of {@link startRedisServer}. */
export interface RedisServerOptions {
  /** Time limit of a start, in milliseconds. @default 20_000 */
  readonly startMs?: number | undefined
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
 * @throws if it does not start in `startMs`, with its output; also if there is none and `REQUIRE_REDIS` is set, so
 *   that no tests are left out by mistake
 */
export async function startRedisServer(
  options: RedisServerOptions = {},
): Promise<RedisServer | undefined> {
  const { startMs = 20_000, args = [], env = process.env } = options
  const program = programOn(env['PATH'] ?? '')
  if (program === undefined) {
    const message = 'There is no redis-server on the PATH'
    if (env['REQUIRE_REDIS']) throw new Error(`${message}, and REQUIRE_REDIS is set`)
    process.stderr.write(`${message}: everything that needs Redis is left out\n`)
    return undefined
  }
  const folder = await mkdtemp(join(tmpdir(), 'redis-'))
  const launch = (port: number): Promise<Running> =>
    run([program, ...settings(port, folder), ...args], AbortSignal.timeout(startMs))
  try {
    const { port, running } = await onFreePort(launch)
    return handleOf({ port, running, folder, launch })
  } catch (error) {
    await rm(folder, { recursive: true })
    throw error
  }
}

interface Running {
  readonly pid: number
  /** Resolves when the server has ended. */
  readonly ended: Promise<unknown>
  kill(): Promise<void>
}

interface Parts {
  readonly port: number
  readonly running: Running
  readonly folder: string
  readonly launch: (port: number) => Promise<Running>
}

function handleOf({ port, running: first, folder, launch }: Parts): RedisServer {
  let running: Running | undefined = first
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

async function run(command: readonly string[], deadline: AbortSignal): Promise<Running> {
  const keeper = spawn('/bin/sh', ['-c', KEEPER, 'keeper', ...command], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true, // Ctrl-C would end this process before it can kill a paused server
  })
  const exited = once(keeper, 'exit')
  const kill = async (): Promise<void> => {
    keeper.stdin.end()
    await exited
  }
  keeper.stdin.on('error', () => {}) // it may have ended before this process
  const ended = once(keeper.stdout, 'close') // the server has its only writing end
  try {
    return { pid: await readyPid(keeper, deadline), ended, kill }
  } catch (error) {
    await kill()
    throw error
  }
}

/** Resolves when the server accepts connections. */
function readyPid(keeper: ChildProcess, deadline: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    let pid = 0
    let output = ''
    const fail = (reason: string): void => {
      reject(new Error(`redis-server did not start: ${reason}\n${output.trim()}`))
    }
    const late = (): void => fail('it took too long')
    deadline.addEventListener('abort', late, { once: true })
    keeper.once('error', (error) => fail(error.message))
    if (!keeper.stdout) return fail('no output')
    // Reads until the server exits: a full pipe would stop it.
    createInterface(keeper.stdout)
      .on('line', (line) => {
        pid ||= Number(/^pid (\d+)$/.exec(line)?.[1] ?? 0)
        output = `${output}${line}\n`.slice(-4096)
        if (!line.includes('Ready to accept connections')) return
        deadline.removeEventListener('abort', late)
        resolve(pid)
      })
      .once('close', () => {
        deadline.removeEventListener('abort', late)
        fail('it ended')
      })
  })
}

function programOn(path: string): string | undefined {
  return path
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, 'redis-server'))
    .find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
