import { Worker } from '../bench/worker.ts'
import type { ContenderName } from './contender-name.ts'

/** A server on one core, and its load on the other one. */
export class Contender implements AsyncDisposable {
  readonly name: ContenderName
  readonly server: Worker
  readonly load: Worker

  constructor(name: ContenderName, workers: { readonly server: Worker; readonly load: Worker }) {
    this.name = name
    this.server = workers.server
    this.load = workers.load
  }

  /** @param profileTo folder for a CPU profile of the server */
  static async start(name: ContenderName, profileTo?: string): Promise<Contender> {
    const server = Worker.start({
      command: ['src/gateway/server-process.ts', name],
      core: 0,
      profileTo,
    })
    try {
      const port = String(await server.ask({ what: 'port' }))
      const load = Worker.start({ command: ['src/gateway/load-process.ts', port], core: 1 })
      return new Contender(name, { server, load })
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.load[Symbol.asyncDispose]()
    await this.server[Symbol.asyncDispose]()
  }
}
