import { dirname, resolve } from 'node:path'

import type { AgentSource } from '../agents/agent-source.ts'
import type { SourceConfig } from './gateway-config.ts'

/** A source, and what it was made of. */
export interface PlacedSource {
  readonly config: SourceConfig
  readonly source: AgentSource
}

export interface OptionsContext {
  /** Of the configuration: its folder is where paths begin. @default the working directory */
  readonly file?: string | undefined
  /** Graphs are loaded again when their files are written. @default false */
  readonly watch?: boolean | undefined
  /** Other processes share the store. @default false */
  readonly isShared?: boolean | undefined
  /** Told what is odd. @default nobody */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
}

/** @throws GatewayError `CONFIG` */
export async function sourceFrom(
  config: SourceConfig,
  { file, watch, isShared, onWarning }: OptionsContext,
): Promise<AgentSource> {
  switch (config.type) {
    case 'langgraph': {
      const { langGraphSource } = await import('../agents/langgraph/lang-graph-source.ts')
      return langGraphSource(resolve(folderOf(file), config.config), { watch, isShared, onWarning })
    }
    case 'langgraph-server': {
      const { langGraphServerSource } =
        await import('../agents/langgraph-server/lang-graph-server-source.ts')
      const { type: _, ...options } = config
      return langGraphServerSource({ ...options, onWarning })
    }
    case 'a2a': {
      const { a2aSource } = await import('../agents/a2a/a2a-source.ts')
      const { type: _, ...options } = config
      return a2aSource({ ...options, onWarning })
    }
  }
}

/** Where relative paths of a configuration begin. */
export function folderOf(file: string | undefined): string {
  return file === undefined ? process.cwd() : dirname(resolve(file))
}
