import { once } from 'node:events'
import type { ReadStream } from 'node:tty'
import { styleText } from 'node:util'
import type { ConversationItem, Exchange, ExchangeKind, TimelineEvent } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'

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

/** Measured values of a step, by name. */
export type Figures = Readonly<Record<string, string | number | boolean>>

/** One step of the demo, as `--json` prints it. */
export interface StepResult {
  readonly name: string
  readonly ok: boolean
  readonly figures: Figures
}

/** Writes the timeline as text, at most 80 columns wide. It has colors on a terminal, and not with `NO_COLOR`. */
export class Terminal {
  readonly #write: (text: string) => void
  /** Number of items of the conversation that were written. */
  #items = 0
  #lastText = ''
  /** Streams that were written when they were opened. */
  readonly #streams = new Set<number>()
  /** Number of exchanges since the last other line, by what they look like. */
  readonly #alike = new Map<string, number>()
  #start: number | undefined

  constructor(write: (text: string) => void) {
    this.#write = write
  }

  line(text = ''): void {
    for (const [row, count] of this.#alike) {
      const more = `+${count - SHOWN_ALIKE}`.padStart(7)
      if (count > SHOWN_ALIKE) this.#write(`${styleText('dim', `${more} ${row}`)}\n`)
    }
    this.#alike.clear()
    this.#write(`${text}\n`)
  }

  /** A heading, and a paragraph about what is to be seen. */
  step(title: string, hint: string): void {
    this.line()
    this.line(styleText('bold', title))
    this.#paragraph('  ', hint, 'dim')
  }

  /** Waits for a key. q, Ctrl-C and Ctrl-D send SIGINT to this process, as Ctrl-C does without raw mode. */
  async waitForKey(input: ReadStream): Promise<void> {
    this.line()
    this.#write(styleText('dim', 'Press a key for the next step, or q to quit. '))
    input.setRawMode(true).resume()
    const [key]: Buffer[] = await once(input, 'data')
    input.setRawMode(false).pause()
    this.#write('\r\u001B[K')
    if (!['\u0003', '\u0004', 'q', 'Q'].includes(String(key))) return
    process.kill(process.pid, 'SIGINT')
    await new Promise(() => {}) // no further step
  }

  says(who: string, text = ''): void {
    if (text === '') return
    this.#paragraph(`  ${who.padEnd(12)}`, text.replace(/\s+/g, ' ').trim(), [])
  }

  /** `differences` are sentences about figures that are wrong. */
  result({ name, ok, figures }: StepResult, differences: readonly string[]): void {
    this.line(`  ${ok ? styleText('green', 'ok') : styleText('red', 'WRONG')} ${name}`)
    const parts = Object.entries(figures).map(([key, value]) => `${key}: ${cut(String(value), 40)}`)
    if (parts.length > 0) this.#paragraph('     ', parts.join(' · '), 'dim')
    for (const difference of differences) this.#paragraph('     ', difference, 'red')
  }

  /** Writes what an event adds to the state. */
  event(event: TimelineEvent, state: PlaygroundState): void {
    this.#start ??= event.at
    this.#conversation(state)
    if (event.type === 'exchange') this.#exchange(event.exchange)
    else if (event.type === 'notice') this.says('playground', event.text)
    else if (event.type === 'tool-call-changed') this.says('', event.change.progress)
    else if (event.type === 'item' && event.item.type === 'question')
      this.says('you', event.item.action)
  }

  /** Writes new items, and the text of an agent when it has come to its end. */
  #conversation({ conversation, run }: PlaygroundState): void {
    for (const item of conversation.slice(this.#items)) {
      const isLast = item === conversation.at(-1)
      const isGrowing = item.type === 'message' && item.from === 'agent' && isLast
      if (isGrowing && run?.state === 'running') return
      this.#items++
      this.#item(item)
    }
  }

  #item(item: ConversationItem): void {
    switch (item.type) {
      case 'message': {
        const { from, agent = 'agent', text } = item
        // The supervisor may repeat what a sub-agent has said.
        if (text !== this.#lastText) this.says(from === 'user' ? 'you' : agent, text)
        this.#lastText = text
        return undefined
      }
      case 'tool-call':
        return this.says(item.agent, `calls ${item.name} ${cut(JSON.stringify(item.args), 200)}`)
      case 'question':
        return this.says(item.server, `asks: ${item.message}`)
    }
  }

  /** Writes an exchange when it has ended, and a stream when it is opened: it may stay open for long. */
  #exchange(exchange: Exchange): void {
    const { id, from, to, kind, startedAt, status, durationMs, problem } = exchange
    if (kind === 'stream' ? this.#streams.has(id) : durationMs === undefined) return
    if (kind === 'stream') this.#streams.add(id)
    const row = [
      cut(`${from} > ${to}`, 22).padEnd(22),
      kind.padEnd(9),
      cut(exchange.label, 23).padEnd(23),
      String(status ?? (problem === undefined ? 'open' : 'none')).padStart(4),
    ].join(' ')
    const count = (this.#alike.get(row) ?? 0) + 1
    this.#alike.set(row, count)
    if (count > SHOWN_ALIKE) return
    const seconds = `${Math.max(0, (startedAt - (this.#start ?? startedAt)) / 1000).toFixed(1)}s`
    const ms = durationMs === undefined || kind === 'stream' ? '' : `${Math.round(durationMs)} ms`
    const columns = `${seconds.padStart(7)} ${row} ${ms.padStart(8)}`.trimEnd()
    this.#write(`${styleText(STYLES[kind], columns)}\n`)
  }

  /** Writes a text in lines, the first of them after `start`, the others below it. */
  #paragraph(start: string, text: string, style: Style): void {
    const width = WIDTH - start.length
    // Breaks lines at spaces where there are some.
    const lines = text.match(new RegExp(`\\S.{0,${width - 1}}(?=\\s|$)|\\S{${width}}`, 'gu'))
    const [first = '', ...rest] = lines ?? []
    this.line(`${styleText('cyan', start)}${styleText(style, first)}`)
    for (const line of rest) this.line(`${' '.repeat(start.length)}${styleText(style, line)}`)
  }
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}
