import type { RecordingProxy } from '@x/mcp-testing'
import { CommandError, toLine } from '@x/internal/command-line'
import type { RunningServer, ServerDefinition } from '../servers/servers.ts'
import type { ServerTrouble } from '../timeline/commands.ts'
import type { ServerState } from '../timeline/events.ts'
import type { EventLog } from './event-log.ts'
import type { Caller, ExchangeRecorder } from './exchange-recorder.ts'

/** Nothing listens here: requests to a server that does not run are refused. */
export const NOWHERE = 'http://127.0.0.1:1/mcp'

const REVISIONS = { legacy: '2025-11-25', modern: '2026-07-28' }

/** A server, and the proxies that record what each caller sends to it. */
export class HostedServer implements AsyncDisposable {
  readonly #definition: ServerDefinition
  readonly #log: EventLog
  readonly #recorder: ExchangeRecorder
  readonly #proxies: RecordingProxy[] = []
  #running: RunningServer | undefined

  constructor(definition: ServerDefinition, log: EventLog, recorder: ExchangeRecorder) {
    this.#definition = definition
    this.#log = log
    this.#recorder = recorder
  }

  /**
   * Starts the server, and ends the one that ran before, with its sessions. A failure is a part of its state.
   *
   * @throws CommandError if it does not start
   */
  async start(): Promise<void> {
    const { name, start } = this.#definition
    const previous = this.#running
    this.#running = undefined
    this.#emit('starting')
    try {
      await previous?.[Symbol.asyncDispose]()
      this.#running = await start(previous?.kind)
      this.#emit('running')
    } catch (cause) {
      const reason = toLine(cause).slice(0, 300).replace(/\.$/, '')
      const problem = `It did not start: ${reason}. Restart it to try again.`
      this.#emit('failed', problem)
      throw new CommandError(`The server ${name} failed. ${problem}`, { cause })
    }
  }

  /** Returns the URL of a new proxy for the requests of one caller. */
  async openProxy(caller: Caller): Promise<string> {
    const target = (): string => this.#running?.url ?? NOWHERE
    const proxy = await this.#recorder.startProxy(target, this.#definition.name, caller)
    this.#proxies.push(proxy)
    return proxy.url
  }

  /** @throws CommandError if the server cannot do that */
  async makeTrouble(trouble: ServerTrouble['name']): Promise<void> {
    const { name, troubles, afterCut = '' } = this.#definition
    if (!troubles.includes(trouble)) {
      throw new CommandError(`The server ${name} cannot do "${trouble}".`)
    }
    if (trouble === 'restart-server') {
      await this.start()
      return this.#log.notify('info', `The server ${name} was started again.`)
    }
    const server = this.#running
    if (server === undefined) throw new CommandError(`The server ${name} does not run: restart it.`)
    switch (trouble) {
      case 'cut-connections':
        for (const proxy of this.#proxies) proxy.dropConnections('both')
        return this.#log.notify('info', `All connections to ${name} were cut. ${afterCut}`.trim())
      case 'forget-sessions':
        server.legacy?.forgetSessions()
        return this.#log.notify('info', `The server ${name} forgot its sessions.`)
      case 'switch-era':
        server.kind = server.kind === 'legacy' ? 'modern' : 'legacy'
        this.#emit('running')
        return this.#log.notify(
          'info',
          `The server ${name} answers with ${REVISIONS[server.kind]} now.`,
        )
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()))
    await this.#running?.[Symbol.asyncDispose]()
  }

  #emit(state: ServerState['state'], problem?: string): void {
    const { name, title, troubles } = this.#definition
    const kind = this.#running?.kind
    const revision = kind && REVISIONS[kind]
    const server = { name, title, troubles, transport: 'http', state, revision, problem } as const
    this.#log.append({ type: 'server', server })
  }
}
