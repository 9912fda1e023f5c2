import { assertRuntime } from '@x/internal'

assertRuntime('@x/agents-debugstate')
