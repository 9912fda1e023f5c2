import { once } from 'node:events'
import type { ReadStream } from 'node:tty'
import { styleText } from 'node:util'
import { labelOf } from '../timeline/classify.ts'
import type { Exchange, ExchangeKind, TimelineEvent } from '../timeline/events.ts'

type Style = Parameters<typeof styleText>[0]

const WIDTH = 80
/** Exchanges that look the same are counted after this number of them, such as those of parallel calls. */
const SHOWN_ALIKE = 2

const STYLES: Readonly<Record<ExchangeKind, Style>> = {
  handshake: 'magenta',
  call: 'blue',
  loss: 'red',
  recovery: 'yellow',
  resume: 'green',
  stream: 'cyan',
  state: 'dim',
  other: 'dim',
}

type Figure = string | number | boolean
export type Figures = Readonly<Record<string, Figure>>

/** One step of the demo: what was measured, and whether it is what it must be. */
export interface StepResult {
  readonly name: string
  readonly ok: boolean
  readonly figures: Figures
  /** One sentence for each wrong figure. */
  readonly differences: readonly string[]
}

export interface TerminalOptions {
  readonly write: (text: string) => void
  readonly isColored: boolean
}

/** Writes the timeline as text, at most 80 columns wide. */
export class Terminal {
  readonly #write: (text: string) => void
  readonly #isColored: boolean
  /** Text of an agent that is still being written, by the id of its message. */
  readonly #texts = new Map<string, { readonly agent: string; text: string }>()
  /** Streams that were written when they were opened. */
  readonly #streams = new Set<number>()
  /** Exchanges since the last other line that look the same, by what they look like. */
  readonly #alike = new Map<string, { readonly style: Style; count: number }>()
  #lastText = ''
  #start: number | undefined

  constructor({ write, isColored }: TerminalOptions) {
    this.#write = write
    this.#isColored = isColored
  }

  line(text = ''): void {
    for (const [look, { style, count }] of this.#alike) {
      const more = `${String(count - SHOWN_ALIKE).padStart(7)} more: `
      if (count > SHOWN_ALIKE) this.#write(`${this.#paint(style, `${more}${look}`)}\n`)
    }
    this.#alike.clear()
    this.#write(`${text}\n`)
  }

  /** A heading, and a paragraph about what is to be seen. */
  step(title: string, hint: string): void {
    this.line()
    this.line(this.#paint('bold', title))
    for (const line of wrapped(hint, WIDTH - 2)) this.line(this.#paint('dim', `  ${line}`))
  }

  /** Waits for a key. q, Ctrl-C and Ctrl-D send SIGINT to this process, as Ctrl-C does without raw mode. */
  async waitForKey(input: ReadStream): Promise<void> {
    this.line()
    this.#write(this.#paint('dim', 'Press a key for the next step, or q to quit. '))
    input.setRawMode(true).resume()
    const [key]: Buffer[] = await once(input, 'data')
    input.setRawMode(false).pause()
    this.#write('\r\u001B[K')
    if (!['\u0003', '\u0004', 'q', 'Q'].includes(String(key))) return
    process.kill(process.pid, 'SIGINT')
    await new Promise(() => {}) // no further step
  }

  says(who: string, text: string): void {
    const [first = '', ...rest] = wrapped(oneLine(text), WIDTH - 14)
    this.line(`  ${this.#paint('cyan', who.padEnd(12))}${first}`)
    for (const line of rest) this.line(`${' '.repeat(14)}${line}`)
  }

  result({ name, ok, figures, differences }: StepResult): void {
    const mark = ok ? this.#paint('green', 'ok') : this.#paint('red', 'WRONG')
    const text = Object.entries(figures).map(([key, value]) => `${key}: ${cut(String(value), 40)}`)
    this.line(`  ${mark} ${this.#paint('bold', name)}`)
    for (const line of text.length === 0 ? [] : wrapped(text.join(' · '), WIDTH - 5)) {
      this.line(this.#paint('dim', `     ${line}`))
    }
    for (const difference of differences) {
      for (const line of wrapped(difference, WIDTH - 5))
        this.line(this.#paint('red', `     ${line}`))
    }
  }

  /** Writes what an event tells. */
  event(event: TimelineEvent): void {
    this.#start ??= event.at
    switch (event.type) {
      case 'exchange':
        return this.#exchange(event.exchange)
      case 'message': {
        const { id, from, agent = 'agent', text } = event.message
        if (from === 'user') this.says('you', text)
        else this.#texts.set(id, { agent, text })
        return
      }
      case 'text': {
        const message = this.#texts.get(event.messageId)
        if (message !== undefined) message.text += event.text
        return
      }
      case 'tool-call': {
        const { agent, name, args } = event.call
        this.flush()
        return this.says(agent, `calls ${name} ${cut(JSON.stringify(args) ?? '', 200)}`)
      }
      case 'tool-progress':
        return this.says('', event.text)
      case 'question':
        this.flush()
        return this.says(event.question.server, `asks: ${event.question.message}`)
      case 'question-closed':
        return this.says('you', event.action)
      case 'run':
        return event.run.state === 'running' ? undefined : this.flush()
      case 'notice':
        return this.says('playground', event.text)
      case 'process':
      case 'server':
      case 'records':
      case 'tool-result': // the agent says it
      case 'conversation-cleared':
        return undefined
    }
  }

  /** Writes texts of agents that have come to their end. */
  flush(): void {
    for (const { agent, text } of this.#texts.values()) {
      // The supervisor may repeat what a sub-agent has said.
      if (text !== '' && text !== this.#lastText) this.says(agent, text)
      this.#lastText = text
    }
    this.#texts.clear()
  }

  /** Writes an exchange when it has ended, and a stream when it is opened: it may stay open for long. */
  #exchange(exchange: Exchange): void {
    const { id, from, to, kind, startedAt, status, durationMs, problem } = exchange
    if (kind === 'stream' ? this.#streams.has(id) : durationMs === undefined) return
    if (kind === 'stream') this.#streams.add(id)
    const seconds = `${Math.max(0, (startedAt - (this.#start ?? startedAt)) / 1000).toFixed(1)}s`
    const outcome = status ?? (problem === undefined ? 'open' : 'none')
    const ms = durationMs === undefined || kind === 'stream' ? '' : `${Math.round(durationMs)} ms`
    const route = cut(`${from} > ${to}`, 20)
    const name = cut(labelOf(exchange), 25)
    const look = `${route}, ${kind} ${name}, ${outcome}`
    const alike = this.#alike.get(look) ?? { style: STYLES[kind], count: 0 }
    this.#alike.set(look, alike)
    if (++alike.count > SHOWN_ALIKE) return
    const columns = [
      seconds.padStart(7),
      route.padEnd(20),
      kind.padEnd(9),
      name.padEnd(25),
      String(outcome).padStart(4),
      ms.padStart(8),
    ]
    this.#write(`${this.#paint(alike.style, columns.join(' ').trimEnd())}\n`)
  }

  #paint(style: Style, text: string): string {
    return this.#isColored ? styleText(style, text, { validateStream: false }) : text
  }
}

/** Summary of all steps, for people and for machines. */
export function summaryOf(results: readonly StepResult[]): {
  readonly text: string
  readonly json: {
    readonly ok: boolean
    readonly steps: readonly Pick<StepResult, 'name' | 'ok' | 'figures'>[]
  }
} {
  const wrong = results.filter(({ ok }) => !ok).map(({ name }) => name)
  return {
    text:
      wrong.length === 0
        ? `All ${results.length} steps have the figures that they must have.`
        : `${wrong.length} of ${results.length} steps are wrong: ${wrong.join(', ')}. See above.`,
    json: {
      ok: wrong.length === 0,
      steps: results.map(({ name, ok, figures }) => ({ name, ok, figures })),
    },
  }
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

/** Lines of at most `width` characters, broken at spaces where there are some. */
function wrapped(text: string, width: number): string[] {
  return text.match(new RegExp(`\\S.{0,${width - 1}}(?=\\s|$)|\\S{${width}}`, 'gu')) ?? ['']
}
