import { isDeepStrictEqual } from 'node:util'

import type { Logger } from 'pino'

import { configChange } from './config-change.ts'
import { sourceFrom, type OptionsContext, type PlacedSource } from './configured-source.ts'
import { liveOptionsFrom } from './gateway-options-from.ts'
import type { SourceConfig } from './gateway-config.ts'
import type { ReadConfig } from './read-config.ts'
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
      // Of its sources those that are there: one that could not be started is tried again.
      const sources = this.#sources.map((placed) => placed.config)
      this.#config = { ...config, agents: { ...config.agents, sources } }
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
    const { gateway, log } = this.#options
    const changes = sourceChanges(this.#sources, wanted)
    const failed = await gateway.registry.replaceSources(
      changes.map(({ gone, come }) => ({ gone: gone?.source, come: come?.source })),
    )
    this.#sources = wanted.map((placed) => {
      if (!failed.includes(placed.source)) return placed
      return changes.find(({ come }) => come === placed)?.gone ?? placed
    })
    if (failed.length > 0) {
      const sources = failed.map(({ name }) => name)
      log.error({ sources }, 'these could not be started: what they were to replace stays')
    }
  }
}

interface SourceChange {
  readonly gone?: PlacedSource | undefined
  readonly come?: PlacedSource | undefined
}

/** What stands where another one stood in the file takes its place. */
function sourceChanges(
  before: readonly PlacedSource[],
  wanted: readonly PlacedSource[],
): readonly SourceChange[] {
  const changes: SourceChange[] = []
  for (let at = 0; at < Math.max(before.length, wanted.length); at += 1) {
    const [gone] = before.slice(at, at + 1).filter((placed) => !wanted.includes(placed))
    const [come] = wanted.slice(at, at + 1).filter((placed) => !before.includes(placed))
    if (gone || come) changes.push({ gone, come })
  }
  return changes
}
