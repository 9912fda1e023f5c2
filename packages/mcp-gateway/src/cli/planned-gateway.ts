import { randomBytes } from 'node:crypto'

import { gatewayOptionsFrom } from '../config/gateway-options-from.ts'
import type { ReadConfig } from '../config/read-config.ts'
import type { Gateway } from '../gateway.ts'
import { createGateway } from '../gateway.ts'
import { GatewayError } from '../gateway-error.ts'
import type { GatewayOptions } from '../gateway-options.ts'
import { MemoryGatewayStore } from '../store/memory-gateway-store.ts'
import { CommandError } from './command-error.ts'
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
    const configured = await gatewayOptionsFrom(read.config, { file, onWarning })
    if (isToServe) checkServable(read.config, configured.options)
    const store = new MemoryGatewayStore()
    // What it signs ends with it in any case: that is nothing to tell of.
    const secrets = isToServe ? configured.options.secrets : { stateKey: randomBytes(32) }
    const gateway = createGateway({ ...configured.options, secrets, ...over, store })
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

/** An error of a configuration, with the line that it is about. */
export function withPlace(error: unknown, { placeOf }: ReadConfig): unknown {
  if (!GatewayError.is(error) || error.path === undefined) return error
  return new CommandError(`${placeOf(error.path)}: ${error.message}`, { cause: error })
}
