import { isDeepStrictEqual } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { deferred } from '@x/internal/testing'
import type { Playground } from '../host/playground.ts'
import type { Command, Exchange, Question, Trouble } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { lineFrom, UserError } from '../user-error.ts'
import type { Figures, StepResult, Terminal } from './terminal.ts'

/** Limit of each wait, in milliseconds. */
const TIMEOUT_MS = 60_000

/** What a step has measured, and what it must be. Figures without an expectation are only shown. */
export interface Measured {
  readonly figures: Figures
  readonly expected: Figures
}

export interface Step {
  readonly name: string
  readonly title: string
  /** One sentence for the reader: what the step shows. */
  readonly hint: string
  readonly act: (scene: Scene) => Promise<Measured>
}

/** Answer of the agent, or a question of a server. */
export interface Turn {
  readonly answer: string
  readonly question: Question | undefined
}

/** Part of the playground that the demo uses. */
type Stage = Pick<Playground, 'state' | 'on' | 'run' | 'exchangeDetails' | 'gateway' | 'hasRedis'>

/** The playground while a step of the demo runs. */
export class Scene {
  readonly playground: Stage
  readonly terminal: Terminal
  readonly results: StepResult[] = []
  readonly #pause: () => Promise<void>
  #lastExchangeId = 0

  /** `pause` is awaited before each step. */
  constructor(playground: Stage, terminal: Terminal, pause: () => Promise<void>) {
    this.playground = playground
    this.terminal = terminal
    this.#pause = pause
  }

  get state(): PlaygroundState {
    return this.playground.state
  }

  /** Runs one step, and compares what it measured. A step that fails has no figures. */
  async run({ name, title, hint, act }: Step): Promise<void> {
    await this.#pause()
    this.terminal.step(title, hint)
    this.mark()
    let result: StepResult
    try {
      const { figures, expected } = await act(this)
      result = checkStep(name, figures, expected)
    } catch (error) {
      result = { name, ok: false, figures: {}, differences: [lineFrom(error)] }
    }
    this.terminal.flush()
    this.terminal.result(result)
    this.results.push(result)
  }

  /** From now on, `exchanges()` returns later ones only. */
  mark(): void {
    this.#lastExchangeId = this.state.exchanges.at(-1)?.id ?? this.#lastExchangeId
  }

  /** Exchanges with a server since the step started. Those that are no streams have ended. */
  async exchanges(server: string, from: Exchange['from'] = 'agent'): Promise<readonly Exchange[]> {
    const since = this.#lastExchangeId
    return this.until(({ exchanges }) => {
      const found = exchanges.filter(
        (one) => one.id > since && one.to === server && one.from === from,
      )
      const isOpen = found.some((one) => one.kind !== 'stream' && one.durationMs === undefined)
      return isOpen ? undefined : found
    }, `the end of the exchanges with ${server}`)
  }

  /** Says something to the agent. Resolves to its answer, or to its question. */
  say(text: string): Promise<Turn> {
    return this.#runWith({ type: 'say', text })
  }

  /** Answers a question. Resolves to the answer of the agent, or to its next question. */
  answer(
    { id: questionId }: Question,
    content: NonNullable<Extract<Command, { type: 'answer' }>['content']>,
  ): Promise<Turn> {
    return this.#runWith({ type: 'answer', questionId, action: 'accept', content })
  }

  async trouble(trouble: Trouble): Promise<void> {
    await this.#withLimit(this.playground.run({ type: 'trouble', trouble }), `"${trouble.name}"`)
  }

  /** Has a report written, and kills a process meanwhile. Resolves to the answer of the agent. */
  async longTask(kill: 'agent' | 'gateway'): Promise<string> {
    await this.trouble({ name: 'long-task', kill })
    return this.#lastAnswer()
  }

  /**
   * Resolves to the first value of `find` that is not `undefined`.
   *
   * @throws UserError that names `what`, after 60 seconds
   */
  async until<Value>(
    find: (state: PlaygroundState) => Value | undefined,
    what: string,
  ): Promise<Value> {
    const { promise, resolve } = deferred<Value>()
    const look = (): void => {
      const found = find(this.state)
      if (found !== undefined) resolve(found)
    }
    const remove = this.playground.on(look)
    look()
    return this.#withLimit(promise, what).finally(remove)
  }

  async #runWith(command: Command): Promise<Turn> {
    await this.#withLimit(this.playground.run(command), 'the end of the run')
    const { run, conversation } = this.state
    if (run?.state === 'failed' || run?.state === 'lost') {
      throw new UserError(`The run of the agent ${run.state}: ${run.problem ?? 'no reason'}`)
    }
    const question = conversation.findLast((item) => item.type === 'question')
    return { answer: this.#lastAnswer(), question: run?.state === 'waiting' ? question : undefined }
  }

  #lastAnswer(): string {
    const message = this.state.conversation.findLast((item) => item.type === 'message')
    return message?.from === 'agent' ? message.text : ''
  }

  /** @throws UserError that names `what`, after 60 seconds */
  async #withLimit<Value>(work: Promise<Value>, what: string): Promise<Value> {
    const abort = new AbortController()
    const late = sleep(TIMEOUT_MS, undefined, { signal: abort.signal }).then(() => {
      throw new UserError(`Waited ${TIMEOUT_MS / 1000} s for ${what}`)
    })
    try {
      return await Promise.race([work, late])
    } finally {
      abort.abort()
      late.catch(() => undefined)
    }
  }
}

/** Compares measured figures with what they must be. */
function checkStep(name: string, figures: Figures, expected: Figures): StepResult {
  const differences = Object.entries(expected)
    .filter(([key, value]) => !isDeepStrictEqual(figures[key], value))
    .map(([key, value]) => `${key} is ${String(figures[key])} and must be ${String(value)}`)
  return { name, ok: differences.length === 0, figures, differences }
}
