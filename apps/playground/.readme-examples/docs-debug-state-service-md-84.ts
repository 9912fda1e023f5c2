import { SqliteDebugStateStore } from '@x/agents-debugstate/server'

const store = new SqliteDebugStateStore('/var/lib/debugstate/state.db', { synchronous: 'full' })
export {}
