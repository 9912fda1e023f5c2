import { isDeepStrictEqual } from 'node:util'

import type { Logger } from 'pino'

import { configChange } from '../config/config-change.ts'
import { sourceFrom, type OptionsContext, type PlacedSource } from '../config/configured-source.ts'
import { liveOptionsFrom } from '../config/gateway-options-from.ts'
import type { SourceConfig } from '../config/gateway-config.ts'
import type { ReadConfig } from '../config/read-config.ts'
import type { Gateway } from '../gateway.ts'
import { withPlace } from './planned-gateway.ts'
import { readConfigFile, type ConfigFile } from './config-file.ts'
import { readSettled } from './settled-file.ts'

export interface ReloadingOptions {
  readonly configFile: ConfigFile
  /** What runs now. */
  readonly read: ReadConfig
  readonly sources: readonly PlacedSource[]
  /** In which new ones are made. */
  readonly sourceContext: OptionsContext
  readonly gateway: Pick<Gateway, 'registry' | 'update'>
  readonly log: Logger
}

/** Brings new versions of a file into a gateway that runs, one after the other. */
export class Reloading {
  readonly #options: ReloadingOptions
  #config: ReadConfig['config']
  #sources: readonly PlacedSource[]
  #last: Promise<void> = Promise.resolve()

  constructor(options: ReloadingOptions) {
    this.#options = options
    this.#config = options.read.config
    this.#sources = options.sources
  }

  /** Never rejects: a file that cannot be used changes nothing, and the log says why. */
  reload(): Promise<void> {
    this.#last = this.#after(this.#last)
    return this.#last
  }

  /** Resolves when nothing is under way any more. */
  settled(): Promise<void> {
    return this.#last
  }

  async #after(last: Promise<void>): Promise<void> {
    await last
    try {
      await this.#reload()
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      this.#options.log.error({ error: message }, 'the file has a mistake: nothing is changed')
    }
  }

  async #reload(): Promise<void> {
    const { configFile, gateway, log } = this.#options
    const read = await readConfigFile(configFile, readSettled)
    const { config, live, waiting } = configChange(this.#config, read.config)
    if (live.length > 0) {
      try {
        // All are made before anything is brought in: the last one may be the one that cannot be.
        const sources = await this.#made(config.agents.sources)
        await gateway.update(liveOptionsFrom(config))
        await this.#useSources(sources)
      } catch (error) {
        throw withPlace(error, read)
      }
      log.level = config.log.level
      this.#config = config
    }
    if (live.length > 0) log.info({ changed: live }, 'the file was read again')
    if (waiting.length > 0) log.warn({ waiting }, 'these changes wait for the next start')
  }

  async #made(wanted: readonly SourceConfig[]): Promise<readonly PlacedSource[]> {
    const { sourceContext } = this.#options
    const left = [...this.#sources]
    return Promise.all(
      wanted.map(async (config) => {
        const index = left.findIndex((each) => isDeepStrictEqual(each.config, config))
        const [kept] = index < 0 ? [] : left.splice(index, 1)
        return kept ?? { config, source: await sourceFrom(config, sourceContext) }
      }),
    )
  }

  async #useSources(wanted: readonly PlacedSource[]): Promise<void> {
    const { registry } = this.#options.gateway
    const before = this.#sources.map(({ source }) => source)
    const after = wanted.map(({ source }) => source)
    this.#sources = wanted
    const gone = before.filter((source) => !after.includes(source))
    const come = after.filter((source) => !before.includes(source))
    await registry.replaceSources(gone, come)
  }
}
