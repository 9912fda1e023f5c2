import { randomBytes } from 'node:crypto'

import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

import { CommandError } from '@x/internal/command-line'
import { folderOf } from './configured-source.ts'
import type { GatewayConfig } from './gateway-config.ts'
import { gatewayOptionsFrom } from './gateway-options-from.ts'
import type { ReadConfig } from './read-config.ts'
import type { Gateway } from '../gateway.ts'
import { createGateway } from '../gateway.ts'
import { GatewayError } from '../errors.ts'
import type { GatewayOptions } from '../options.ts'
import { MemoryGatewayStore } from '../store/memory-gateway-store.ts'
import { readConfigFile, type ConfigFile } from './config-file.ts'
import { checkServable } from './servable.ts'

export interface PlannedGateway extends AsyncDisposable {
  readonly read: ReadConfig
  readonly gateway: Gateway
  /** What was odd. */
  readonly warnings: readonly string[]
}

export interface PlanOptions {
  /** What counts in place of the file. */
  readonly over?: Partial<GatewayOptions> | undefined
  /** Refuses also what would only be wrong once somebody is served. @default false */
  readonly isToServe?: boolean | undefined
}

/**
 * A gateway as a file says it, whose agents were looked for once, and which serves nobody. It remembers nothing:
 * what a running one keeps in its store is not touched.
 *
 * @throws CommandError, GatewayError `CONFIG` with its place
 */
export async function plannedGateway(
  configFile: ConfigFile,
  { over = {}, isToServe = false }: PlanOptions = {},
): Promise<PlannedGateway> {
  const read = await readConfigFile(configFile)
  const warnings: string[] = []
  const onWarning = (message: string, cause?: unknown): void => {
    const isSaid = !(cause instanceof Error) || message.includes(cause.message)
    warnings.push(isSaid ? message : `${message}: ${cause.message}`)
  }
  try {
    const { file } = configFile
    const configured = await gatewayOptionsFrom(await withoutFolder(read.config, file), {
      file,
      onWarning,
    })
    if (isToServe) checkServable(read.config, configured.options, onWarning)
    const store = new MemoryGatewayStore()
    // What it signs ends with it in any case: that is nothing to tell of.
    const secrets = isToServe ? configured.options.secrets : { stateKey: randomBytes(32) }
    const gateway = createGateway({ ...configured.options, logger: false, secrets, ...over, store })
    await gateway.registry.start()
    return {
      read,
      gateway,
      warnings,
      [Symbol.asyncDispose]: async () => {
        await gateway.close()
        await Promise.all([configured.close(), store.close()])
      },
    }
  } catch (error) {
    throw withPlace(error, read)
  }
}

/**
 * The folder of a store is neither opened nor made: it may be that of the gateway that runs, which would be refused
 * its own, or is to belong to another user.
 *
 * @throws GatewayError `CONFIG` where there can be no such folder
 */
async function withoutFolder(config: GatewayConfig, file: string): Promise<GatewayConfig> {
  const { type, dir } = config.store
  if (type !== 'disk' || dir === null) return config
  for (let at = resolve(folderOf(file), dir); ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined)
    if (found?.isDirectory() === false) {
      throw new GatewayError('CONFIG', `${dir} can be no folder: ${at} is a file`, {
        path: 'store.dir',
      })
    }
    if (found || at === dirname(at)) break
  }
  return { ...config, store: { ...config.store, type: 'memory' } }
}

/** An error of a configuration, with the line that it is about. */
export function withPlace(error: unknown, { placeOf }: ReadConfig): unknown {
  if (!GatewayError.is(error) || error.path === undefined) return error
  return new CommandError(`${placeOf(error.path)}: ${error.message}`, { cause: error })
}
