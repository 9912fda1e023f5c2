import { resolve } from 'node:path'

import { GatewayError } from '../errors.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { importAdapter } from './adapters.ts'
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
      const { url, prefix } = store
      const adapter = { folder: folderOf(file), path: 'store.type' }
      const { redisStore } = await importAdapter('@x/mcp-gateway-redis', adapter)
      if (typeof redisStore !== 'function') throw new TypeError('redisStore is not a function')
      const onRates = (error: unknown): void =>
        onWarning?.('Redis is down: each process counts rates for itself', error)
      return Reflect.apply(redisStore, undefined, [{ url, prefix, onError, onWarning: onRates }])
    }
  }
}

function misfit(path: string, message: string): GatewayError {
  return new GatewayError('CONFIG', message, { path })
}
