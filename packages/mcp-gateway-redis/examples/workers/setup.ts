// Makes the tables of the checkpoints. Once, before the processes that need them start.
import { checkpointer } from './graph.ts'

await checkpointer.setup()
await checkpointer.end()
