import type { ConfigSetting } from '../config/config-setting.ts'
import type { Environment } from '../config/expand-variables.ts'
import { readConfig, type ReadConfig } from '../config/read-config.ts'
import { readText } from './settled-file.ts'

export interface ConfigFile {
  readonly file: string
  readonly env: Environment
  readonly flags: readonly ConfigSetting[]
}

/** Reads a file, with what flags and environment say. @throws CommandError, GatewayError `CONFIG` */
export async function readConfigFile(
  { file, env, flags }: ConfigFile,
  read: (file: string) => Promise<string> = readText,
): Promise<ReadConfig> {
  return readConfig({ content: await read(file), name: file, env, flags })
}
