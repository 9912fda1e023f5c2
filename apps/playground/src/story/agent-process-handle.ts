import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { AgentProcessEnvironment, FromAgent, ToAgent } from './agent/agent-messages.ts'
import type { AgentExecutionType } from '../agent/execution-type.ts'
import { UserError } from '../user-error.ts'

export interface StartAgentOptions {
  readonly agentFile: string
  /** Slug → URL */
  readonly servers: Readonly<Record<string, string>>
  /** Of the debug-state service. */
  readonly debugState: { readonly url: string; readonly agentId: string; readonly token: string }
  /** Decides what becomes of sessions. */
  readonly executionType: AgentExecutionType
  /** `team`: an agent with a sub-agent. @default 'single' */
  readonly kind?: 'single' | 'team' | undefined
}

/** An agent in a process of its own, seen from outside. */
export class AgentProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  /** The exit code; `null` when a signal ended it. */
  readonly #exited: Promise<number | null>

  private constructor(child: ChildProcess) {
    this.#child = child
    this.#exited = once(child, 'exit').then(([code]: (number | null)[]) => code ?? null)
  }

  /** @throws UserError with what the process said, if it cannot run. */
  static async start(options: StartAgentOptions): Promise<AgentProcess> {
    const { agentFile, servers, debugState, executionType, kind = 'single' } = options
    const settings: AgentProcessEnvironment = {
      AGENT_FILE: agentFile,
      AGENT_SERVERS: JSON.stringify(servers),
      AGENT_EXECUTION_TYPE: executionType,
      AGENT_KIND: kind,
    }
    const child = fork(fileURLToPath(new URL('./agent/agent-process.ts', import.meta.url)), {
      execArgv: ['--conditions=mcp-source'],
      env: {
        ...process.env,
        ...settings,
        DEBUGSTATE_URL: debugState.url,
        DEBUGSTATE_AGENT_ID: debugState.agentId,
        DEBUGSTATE_TOKEN: debugState.token,
      },
    })
    const agent = new AgentProcess(child)
    await agent.#next('ready')
    return agent
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** @throws UserError with the reason, if the agent came to no answer. */
  async ask(text: string): Promise<string> {
    const answer = this.#next('answer')
    this.#send({ type: 'ask', text })
    return (await answer).text
  }

  /**
   * Lets it be an MCP server on loopback, for whoever has the token.
   *
   * @returns its URL
   * @throws UserError with the reason, if it cannot be one.
   */
  async offer(token: string): Promise<string> {
    const offered = this.#next('offered')
    this.#send({ type: 'offer', token })
    return (await offered).url
  }

  /** Ends the offer; the agent goes on. Returns how often others had it run. */
  async withdraw(): Promise<number> {
    const withdrawn = this.#next('withdrawn')
    this.#send({ type: 'withdraw' })
    return (await withdrawn).runs
  }

  /** SIGKILL: no handler runs, nothing is said to any server. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  /**
   * Lets it end. Returns the exit code; `null` when it had to be killed, because something that was left
   * open held it.
   */
  async stop(): Promise<number | null> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return this.#exited
    const tooLate = setTimeout(() => this.#child.kill('SIGKILL'), 10_000)
    if (this.#child.connected) this.#send({ type: 'stop' })
    const code = await this.#exited
    clearTimeout(tooLate)
    return code
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #send(message: ToAgent): void {
    this.#child.send(message)
  }

  async #next<Type extends FromAgent['type']>(
    type: Type,
  ): Promise<Extract<FromAgent, { type: Type }>> {
    const gone = new AbortController()
    try {
      const message = await Promise.race([
        once(this.#child, 'message', { signal: gone.signal }).then(([said]: FromAgent[]) => said),
        this.#exited.then(() => undefined),
      ])
      if (message === undefined) throw new UserError('The agent process ended without an answer')
      if (message.type === 'failed') throw new UserError(message.message)
      if (!isOf(message, type)) throw new TypeError(`The agent said "${message.type}" out of turn`)
      return message
    } finally {
      gone.abort()
    }
  }
}

function isOf<Type extends FromAgent['type']>(
  message: FromAgent,
  type: Type,
): message is Extract<FromAgent, { type: Type }> {
  return message.type === type
}
