import { spawn } from 'node:child_process'
import { isAbsolute } from 'node:path'
import { once } from 'node:events'
import { settledWithin } from './settled-within.ts'

export interface LoginShellOptions {
  /** `$SHELL`. */
  readonly shell: string | undefined
  readonly environment: NodeJS.ProcessEnv
  /** @default 3000 */
  readonly limitMs?: number | undefined
}

const LIMIT_MS = 3000
const MOST_BYTES = 256 * 1024

/**
 * The `PATH` that the user has in a terminal. Desktop programs are started without it, and then find
 * neither `npx` nor `uvx`.
 *
 * @throws Error that says why there is none
 */
export async function readLoginShellPath(options: LoginShellOptions): Promise<string> {
  const { shell, environment, limitMs = LIMIT_MS } = options
  if (shell === undefined || !isAbsolute(shell)) throw new Error('$SHELL names no login shell')
  const child = spawn(shell, ['-l', '-c', 'printenv PATH'], {
    cwd: '/',
    env: environment,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true, // so that all that its profile runs can be ended with it
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-MOST_BYTES)
  })
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = error
  })
  const isOver = await settledWithin(
    once(child, 'close').catch(() => {}),
    limitMs,
  )
  child.stdout.destroy()
  const hasExited = child.exitCode !== null || child.signalCode !== null
  if (!hasExited && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  if (failure !== undefined)
    throw new Error('The login shell could not be started', { cause: failure })
  // A profile may say something first, and leave something behind that keeps the pipe open.
  const path = output.trimEnd().split('\n').at(-1) ?? ''
  if (!isOver && !hasExited) throw new Error(`The login shell gave no answer within ${limitMs} ms`)
  if (!path.includes('/')) throw new Error('The login shell gave no PATH')
  return path
}

/** Asks the login shell once. A failure is not kept. */
export class LoginShellPath {
  readonly #read: () => Promise<string>
  #known: Promise<string> | undefined

  constructor(read: () => Promise<string>) {
    this.#read = read
  }

  get isKnown(): boolean {
    return this.#known !== undefined
  }

  get(): Promise<string> {
    const known = (this.#known ??= this.#read())
    known.catch(() => {
      if (this.#known === known) this.forget()
    })
    return known
  }

  /** Something may have been installed since. */
  forget(): void {
    this.#known = undefined
  }
}

/** Of the user that this process runs as. */
export const loginShellPath: LoginShellPath = new LoginShellPath(() =>
  readLoginShellPath({ shell: process.env['SHELL'], environment: process.env }),
)
