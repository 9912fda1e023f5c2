import { setTimeout as sleep } from 'node:timers/promises'
import { CommandError, toLine } from '@x/internal/command-line'
import type { Playground } from '../host/playground.ts'
import type { Command, Trouble } from '../timeline/commands.ts'
import type { Exchange } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import type { Figures, StepResult, Terminal } from './terminal.ts'

/** Limit of a step, in milliseconds. */
const STEP_MS = 90_000

/** One step of the demo. */
export interface Step {
  readonly name: string
  readonly title: string
  /** One sentence for the reader: what the step shows. */
  readonly hint: string
  /** Does the step, and returns what it has measured. */
  readonly act: (scene: Scene) => Promise<Figures>
  /** Expected values of figures. The others are only shown. */
  readonly expected: Figures
}

/** Part of the playground that the demo uses. */
type Stage = Pick<Playground, 'state' | 'until' | 'run' | 'recorder' | 'environment'>

/** The playground while a step of the demo runs. */
export class Scene {
  readonly playground: Stage
  readonly terminal: Terminal
  /** The last exchange before a step, or before the last thing that was said in it. */
  #lastExchangeId = 0

  constructor(playground: Stage, terminal: Terminal) {
    this.playground = playground
    this.terminal = terminal
  }

  get state(): PlaygroundState {
    return this.playground.state
  }

  /** Runs one step, and compares what it has measured. A step that fails has no figures. */
  async run({ name, title, hint, act, expected }: Step): Promise<StepResult> {
    this.terminal.step(title, hint)
    this.#mark()
    const late = sleep(STEP_MS, undefined, { ref: false }).then(() => {
      throw new CommandError(`The step did not end in ${STEP_MS / 1000} s`)
    })
    let figures: Figures = {}
    let differences: readonly string[]
    try {
      figures = await Promise.race([act(this), late])
      differences = Object.entries(expected)
        .filter(([key, value]) => figures[key] !== value)
        .map(([key, value]) => `${key} is ${String(figures[key])} and must be ${String(value)}`)
    } catch (error) {
      differences = [toLine(error)]
    }
    const result = { name, ok: differences.length === 0, figures }
    this.terminal.result(result, differences)
    return result
  }

  /** Says something to the agent. Resolves to its answer; a question of a server is in the state. */
  say(text: string): Promise<string> {
    this.#mark()
    return this.ask({ type: 'say', text })
  }

  /**
   * Gives a command that starts or continues a run, and resolves to the answer of the agent.
   *
   * @throws CommandError if the run fails
   */
  async ask(command: Command): Promise<string> {
    await this.playground.run(command)
    const { run, conversation } = this.state
    if (run?.state === 'failed' || run?.state === 'lost') {
      throw new CommandError(`The run of the agent ${run.state}: ${run.problem ?? 'no reason'}`)
    }
    return conversation.findLast((item) => item.type === 'message')?.text ?? ''
  }

  trouble(trouble: Trouble): Promise<void> {
    return this.playground.run({ type: 'trouble', trouble })
  }

  /** Exchanges with a server since something was said, or since the step started. */
  exchanges(server: string, from: Exchange['from'] = 'agent'): readonly Exchange[] {
    return this.state.exchanges.filter(
      (one) => one.id > this.#lastExchangeId && one.to === server && one.from === from,
    )
  }

  /** The same, when all that are no streams have ended. */
  async endedExchanges(server: string, from?: Exchange['from']): Promise<readonly Exchange[]> {
    await this.playground.until(() =>
      this.exchanges(server, from).every(
        ({ kind, durationMs }) => kind === 'stream' || durationMs !== undefined,
      ),
    )
    return this.exchanges(server, from)
  }

  #mark(): void {
    this.#lastExchangeId = this.state.exchanges.at(-1)?.id ?? 0
  }
}
