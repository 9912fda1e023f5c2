import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { answerFrom } from './answer.ts'
import type { Answer } from './answer.ts'

/**
 * One kept-alive connection with one request in flight. Written by hand: an HTTP client needs more time than
 * the control does, and would be what is measured.
 */
export class Connection {
  readonly #socket: Socket
  #received = ''
  #asked: Asked | undefined

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', (error) => this.#asked?.reject(error))
    socket.on('close', () => this.#asked?.reject(new Error('A server ended a connection')))
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    return new Connection(socket)
  }

  /** Sends a whole request, in ASCII. Rejects where the answer is none, or the connection breaks. */
  ask(request: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('A server has ended a connection'))
      this.#asked = { resolve, reject }
      this.#socket.write(request, 'latin1')
    })
  }

  async close(): Promise<void> {
    this.#asked = undefined
    if (this.#socket.destroyed) return
    const closed = once(this.#socket, 'close')
    this.#socket.destroy()
    await closed
  }

  #read(text: string): void {
    const received = this.#received + text
    try {
      const answer = answerFrom(received)
      this.#received = answer === undefined ? received : ''
      if (answer !== undefined) this.#asked?.resolve(answer)
    } catch (error) {
      this.#asked?.reject(error instanceof Error ? error : new Error(String(error)))
    }
  }
}

interface Asked {
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: Error) => void
}
