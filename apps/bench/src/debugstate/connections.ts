import { Connection } from './connection.ts'

/** Connections that are all kept busy. Opened for one turn: a server ends those that idle while others have theirs. */
export class Connections implements AsyncDisposable {
  readonly #all: readonly Connection[]

  constructor(all: readonly Connection[]) {
    this.#all = all
  }

  static async open(port: number, count: number): Promise<Connections> {
    return new Connections(
      await Promise.all(Array.from({ length: count }, () => Connection.open(port))),
    )
  }

  /** Does `work` so many times, one at a time on each connection, the next as soon as the last is done. */
  async each(
    times: number,
    work: (connection: Connection, turn: number) => Promise<void>,
  ): Promise<void> {
    let next = 0
    await Promise.all(
      this.#all.map(async (connection) => {
        while (next < times) await work(connection, next++)
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((connection) => connection.close()))
  }
}
