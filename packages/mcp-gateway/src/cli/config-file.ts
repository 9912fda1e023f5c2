import { readFile } from 'node:fs/promises'

import type { ConfigSetting } from '../config/config-setting.ts'
import type { Environment } from '../config/expand-variables.ts'
import { readConfig, type ReadConfig } from '../config/read-config.ts'
import { CommandError } from './command-error.ts'

export interface ConfigFile {
  readonly file: string
  readonly env: Environment
  readonly flags: readonly ConfigSetting[]
}

/** Reads a file, with what flags and environment say. @throws CommandError, GatewayError `CONFIG` */
export async function readConfigFile({ file, env, flags }: ConfigFile): Promise<ReadConfig> {
  let content: string
  try {
    content = await readFile(file, 'utf8')
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const why = isMissing ? 'there is no such file' : 'it cannot be read'
    throw new CommandError(`${file}: ${why}`, { cause })
  }
  return readConfig({ content, name: file, env, flags })
}
