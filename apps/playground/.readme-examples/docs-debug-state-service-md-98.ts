import { RedisDebugStateStore } from '@x/agents-debugstate/server'

const store = new RedisDebugStateStore({ url: 'rediss://user:password@redis.example:6379/0' })
export {}
