import type { HttpAnswer } from './exchange.ts'

/** One JSON-RPC message as an answer. Whoever writes it to a socket takes its text; a `Response` is made for others. */
export class JsonAnswer implements HttpAnswer {
  readonly status: number
  readonly json: string
  #response: Response | undefined

  /** @param status @default 200 */
  constructor(message: unknown, status = 200) {
    this.status = status
    this.json = JSON.stringify(message)
  }

  get response(): Response {
    const { status, json } = this
    const headers = { 'content-type': 'application/json' }
    this.#response ??= new Response(json, { status, headers })
    return this.#response
  }
}
