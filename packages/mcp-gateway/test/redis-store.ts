import type { GatewayStore } from '../src/store/gateway-store.ts'

interface RedisStoreOptions {
  readonly url?: string | undefined
  readonly prefix?: string | undefined
  readonly timeoutMs?: number | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

/** The package depends on this one, so the compiler must not follow the import. */
const name: string = '@x/mcp-gateway-redis'
const adapter: { readonly redisStore: RedisStoreFactory } = await import(name)

type RedisStoreFactory = (options: RedisStoreOptions) => GatewayStore & AsyncDisposable
export const redisStore: RedisStoreFactory = adapter.redisStore
