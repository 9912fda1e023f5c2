import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'

/** A server process that ends when this process ends, also by SIGKILL. */
export interface KeptProcess {
  readonly pid: number
  /** Resolves when the server has ended. */
  readonly ended: Promise<unknown>
  /** Resolves when the server was killed, and has ended. */
  kill(): Promise<void>
}

export interface KeptProcessOptions {
  /** Part of the line with which the server says that it accepts connections. */
  readonly readyLine: string
  /** Time limit of the start, in milliseconds. */
  readonly startMs: number
  /** Signal that kills the server at once. */
  readonly killSignal: 'KILL' | 'QUIT'
  /** User id of the server. Undefined for that of this process. */
  readonly uid: number | undefined
}

/**
 * Prints the process id of the server, and ends the server when the input ends: a killed parent closes that
 * pipe. It closes its own output, so that the pipe ends with the server.
 */
const KEEPER =
  'signal=$1; shift; "$@" </dev/null 2>&1 & echo "pid $!"; exec >&- 2>&-; cat >/dev/null; kill -"$signal" $!; wait $!'

/** Returns the path of a program in the first of these folders that has it. */
export function programIn(folders: readonly string[], name: string): string | undefined {
  return folders
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
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

/** Starts a server. Resolves when it accepts connections. @throws with its output if it ends, or is late */
export async function startKept(
  command: readonly string[],
  { readyLine, startMs, killSignal, uid }: KeptProcessOptions,
): Promise<KeptProcess> {
  const keeper = spawn('/bin/sh', ['-c', KEEPER, 'keeper', killSignal, ...command], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true, // Ctrl-C would end this process before it can kill a paused server
    uid,
  })
  const exited = once(keeper, 'exit')
  const kill = async (): Promise<void> => {
    keeper.stdin.end()
    await exited
  }
  keeper.stdin.on('error', () => {}) // it may have ended before this process
  const ended = once(keeper.stdout, 'close') // the server has its only writing end
  try {
    const name = basename(command[0] ?? '')
    const deadline = AbortSignal.timeout(startMs)
    return { pid: await readyPid(keeper, { name, readyLine, deadline }), ended, kill }
  } catch (error) {
    await kill()
    throw error
  }
}

/** Resolves when the server accepts connections. */
function readyPid(
  keeper: ChildProcess,
  {
    name,
    readyLine,
    deadline,
  }: { readonly name: string; readonly readyLine: string; readonly deadline: AbortSignal },
): Promise<number> {
  return new Promise((resolve, reject) => {
    let pid: number | undefined
    let isReady = false
    let output = ''
    const fail = (reason: string): void => {
      reject(new Error(`${name} did not start: ${reason}\n${output.trim()}`))
    }
    const late = (): void => fail('it took too long')
    deadline.addEventListener('abort', late, { once: true })
    keeper.once('error', (error) => fail(error.message))
    if (!keeper.stdout) return fail('no output')
    // Reads until the server exits: a full pipe would stop it.
    createInterface(keeper.stdout)
      .on('line', (line) => {
        const [, id] = /^pid (\d+)$/.exec(line) ?? []
        if (id !== undefined) pid ??= Number(id)
        isReady ||= line.includes(readyLine)
        output = `${output}${line}\n`.slice(-4096)
        // On a busy machine, the server may be ready before the shell has written its id.
        if (!isReady || pid === undefined) return
        deadline.removeEventListener('abort', late)
        resolve(pid)
      })
      .once('close', () => {
        deadline.removeEventListener('abort', late)
        fail('it ended')
      })
  })
}
