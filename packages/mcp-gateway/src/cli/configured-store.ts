import { resolve } from 'node:path'

import { GatewayError } from '../errors.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { folderOf, type OptionsContext } from './configured-source.ts'
import type { StoreConfig } from './gateway-config.ts'

/** Loads only what is configured. @throws GatewayError `CONFIG` with the path of what cannot be right */
export async function storeFrom(
  store: StoreConfig,
  { file, onWarning }: OptionsContext = {},
): Promise<GatewayStore> {
  const onError = (error: unknown): void => onWarning?.('A listener of the store failed', error)
  switch (store.type) {
    case 'memory': {
      const { MemoryGatewayStore } = await import('../store/memory-gateway-store.ts')
      return new MemoryGatewayStore({ onError })
    }
    case 'disk': {
      if (store.dir === null) throw misfit('store.dir', 'A store on disk needs a folder: store.dir')
      const { DiskGatewayStore } = await import('../store/disk-gateway-store.ts')
      return new DiskGatewayStore(resolve(folderOf(file), store.dir), { onError })
    }
    case 'redis': {
      if (store.url === null) throw misfit('store.url', 'A store in Redis needs its store.url')
      const { RedisGatewayStore } = await import('../store/redis/redis-gateway-store.ts')
      const { url, prefix } = store
      return new RedisGatewayStore({
        url,
        prefix,
        onError,
        onWarning: (error) => onWarning?.('Redis is away: rates are counted here', error),
      })
    }
  }
}

function misfit(path: string, message: string): GatewayError {
  return new GatewayError('CONFIG', message, { path })
}
