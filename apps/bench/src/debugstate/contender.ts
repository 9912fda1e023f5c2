import { join } from 'node:path'
import { Worker } from '../bench/worker.ts'
import { numbersFrom } from '../client/checks.ts'
import type { Cost } from './cost.ts'
import type { Workload } from './workloads.ts'

/** The bare server; and the service on SQLite, by its `synchronous` mode. */
export type ContenderName = 'control' | 'sqlite-normal' | 'sqlite-full'

export interface ContenderOptions {
  /** For the database. */
  readonly folder: string
  /** Folder for a CPU profile. */
  readonly profileTo?: string | undefined
}

/** A server on one core, and its load on the other one. */
export class Contender implements AsyncDisposable {
  readonly name: ContenderName
  readonly #server: Worker
  readonly #load: Worker

  constructor(name: ContenderName, { server, load }: { server: Worker; load: Worker }) {
    this.name = name
    this.#server = server
    this.#load = load
  }

  /** Stores what a reading workload reads. */
  async seed({ name }: Workload): Promise<void> {
    await this.#load.ask({ what: 'seed', workload: name })
  }

  /** @throws Error for a wrong answer */
  async run({ name }: Workload, times: number): Promise<Cost> {
    const before = Number(await this.#server.ask({ what: 'cpu' }))
    const turn = await this.#load.ask({ what: 'run', workload: name, times })
    const cpuUs = Number(await this.#server.ask({ what: 'cpu' })) - before
    return { times, cpuUs, ...numbersFrom(turn, ['wallUs', 'p99Us', 'loadCpuUs']) }
  }

  /** @throws Error where a write that was acknowledged is not there */
  async verify({ name }: Workload): Promise<void> {
    await this.#load.ask({ what: 'verify', workload: name })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#load[Symbol.asyncDispose]()
    await this.#server[Symbol.asyncDispose]()
  }
}

export async function startContender(
  name: ContenderName,
  { folder, profileTo }: ContenderOptions,
): Promise<Contender> {
  const command = commandOf(name, folder)
  const server = Worker.start({ command, core: 0, profileTo })
  try {
    const port = String(await server.ask({ what: 'port' }))
    const load = Worker.start({ command: ['src/debugstate/load-process.ts', port], core: 1 })
    return new Contender(name, { server, load })
  } catch (error) {
    await server[Symbol.asyncDispose]()
    throw error
  }
}

function commandOf(name: ContenderName, folder: string): readonly string[] {
  const file = join(folder, `${name}.db`)
  switch (name) {
    case 'control':
      return ['src/debugstate/control-process.ts']
    case 'sqlite-normal':
      return ['src/debugstate/service-process.ts', file, 'normal']
    case 'sqlite-full':
      return ['src/debugstate/service-process.ts', file, 'full']
  }
}
