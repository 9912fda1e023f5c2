// Makes the tables of the checkpoints. Runs once, before the processes that need them.
import { checkpointer } from './graph.ts'

await checkpointer.setup()
await checkpointer.end()
