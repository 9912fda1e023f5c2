import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'

/** Time limit of an exit. */
const EXIT_MS = 3000

export interface ChildProgramOptions<Message> {
  readonly file: URL
  readonly env: Readonly<Record<string, string>>
  readonly onMessage: (message: Message) => void
  /** Called when the program ends without `kill()` or `exit()`. `reason` is one sentence. */
  readonly onCrash: (reason: string) => void
}

/** A program in a process of its own. It ends with this process. */
export class ChildProgram<Message> {
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>
  #lastError = ''
  #isEnded = false

  constructor({ file, env, onMessage, onCrash }: ChildProgramOptions<Message>) {
    this.#child = fork(fileURLToPath(file), {
      execPath: sourceNode,
      execArgv: ['--conditions=mcp-source'],
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#exited = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.on('message', onMessage)
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#lastError = /^\w*Error: (.*)$/m.exec(text)?.[1] ?? this.#lastError
    })
    this.#child.once('exit', (code, signal) => {
      const how = signal === null ? `exit code ${code}` : `signal ${signal}`
      if (!this.#isEnded) onCrash(`The process ended with ${how}. ${this.#lastError}`.trim())
    })
    this.#child.once('error', (error) => onCrash(`The process did not start: ${error.message}`))
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  send(message: object): void {
    if (this.#child.connected) this.#child.send(message)
  }

  /** SIGKILL: the program can do nothing about it. Resolves when it has ended. */
  async kill(): Promise<void> {
    this.#isEnded = true
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  /** Asks the program by a message to exit, and kills it if that takes too long. */
  async exit(message: object): Promise<void> {
    this.#isEnded = true
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), EXIT_MS)
    this.send(message)
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.#exited
    clearTimeout(timer)
  }
}
