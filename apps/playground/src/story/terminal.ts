import { styleText } from 'node:util'
import type { Exchange } from '@x/mcp-testing'
import type { StepResult } from './check.ts'
import type { FollowedServer, Narrator } from './narrator.ts'

type Style = Parameters<typeof styleText>[0]

/** Tells the story as text: a timeline while it happens, and a table of figures at the end. */
export class Terminal implements Narrator {
  readonly #write: (text: string) => void
  readonly #isColored: boolean

  constructor(options: { write: (text: string) => void; isColored: boolean }) {
    this.#write = options.write
    this.#isColored = options.isColored
  }

  line(text = ''): void {
    this.#write(`${text}\n`)
  }

  step(title: string, sight?: string): void {
    this.line()
    this.line(this.#paint('bold', title))
    if (sight !== undefined) this.line(`  ${this.#paint('italic', sight)}`)
  }

  says(who: 'user' | 'agent' | 'client' | 'world', text: string): void {
    this.line(`  ${this.#paint('cyan', who.padEnd(7))}${text}`)
  }

  result({ name, ok, wrong }: StepResult): void {
    const mark = ok ? this.#paint('green', 'ok     ') : this.#paint('red', 'WRONG  ')
    this.line(`  ${mark}${name}${ok ? '' : `: ${wrong.join('; ')}`}`)
  }

  follow({ slug, proxy }: FollowedServer): () => void {
    return proxy.on(({ type, exchange }) => {
      // A stream may end long after its part of the story: it is told when it is opened.
      if (type === (isStream(exchange) ? 'started' : 'ended')) {
        this.line(this.#exchange(slug, exchange))
      }
    })
  }

  table(results: readonly StepResult[]): void {
    this.step('Figures')
    const width = Math.max(...results.map(({ name }) => name.length))
    for (const { name, ok, figures } of results) {
      const mark = ok ? this.#paint('green', 'ok   ') : this.#paint('red', 'WRONG')
      const told = Object.entries(figures).map(([key, value]) => `${key} ${String(value)}`)
      this.line(`  ${mark} ${name.padEnd(width)}  ${this.#paint('dim', told.join(' · '))}`)
    }
  }

  #exchange(slug: string, exchange: Exchange): string {
    const { httpMethod, rpcMethod, toolName, status, ms, sessionId, connection } = exchange
    const silent = httpMethod === 'DELETE' ? '(end of the session)' : '(listening stream)'
    const what = toolName === undefined ? (rpcMethod ?? silent) : `call ${toolName}`
    const how = [
      statusOf(exchange),
      ms === undefined ? '' : `${ms.toFixed(1)} ms`,
      sessionId === undefined ? 'no session' : `session ${sessionId.slice(0, 4)}…`,
      `connection ${connection}`,
    ]
    const text = `    ${slug} ← ${httpMethod.padEnd(6)} ${what.padEnd(26)} ${how.filter(String).join(', ')}`
    return this.#paint((status ?? 0) >= 400 ? 'yellow' : 'dim', text)
  }

  #paint(style: Style, text: string): string {
    return this.#isColored ? styleText(style, text, { validateStream: false }) : text
  }
}

/** Of the answer; without one, how the request stands. */
function statusOf({ status, end }: Exchange): string {
  if (status !== undefined) return String(status)
  if (end === undefined) return 'open'
  return end === 'client-gone' ? 'given up' : 'broken'
}

/** What a server tells by itself: a GET in a session, `subscriptions/listen` without one. */
function isStream({ httpMethod, rpcMethod }: Exchange): boolean {
  return httpMethod === 'GET' || rpcMethod === 'subscriptions/listen'
}
