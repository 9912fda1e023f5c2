import { UsageError } from '@x/internal/command-line'
import type { ConfigSetting } from './config-setting.ts'
import type { Environment } from './expand-variables.ts'
import { readConfig, type ReadConfig } from './read-config.ts'
import { GatewayError } from '../errors.ts'
import { readText } from './settled-file.ts'

export interface ConfigFile {
  readonly file: string
  readonly env: Environment
  readonly flags: readonly ConfigSetting[]
}

/**
 * Reads a file, with what flags and environment say.
 *
 * @throws UsageError for a flag that cannot be right, whatever the file says; CommandError, GatewayError `CONFIG`
 */
export async function readConfigFile(
  { file, env, flags }: ConfigFile,
  read: (file: string) => Promise<string> = readText,
): Promise<ReadConfig> {
  checkFlags(flags)
  return readConfig({ content: await read(file), name: file, env, flags })
}

function checkFlags(flags: readonly ConfigSetting[]): void {
  try {
    readConfig({ content: {}, flags })
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    throw new UsageError(error.message, { cause: error })
  }
}
