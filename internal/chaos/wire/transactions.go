package wire

import (
	"fmt"

	"github.com/IBM/sarama"
)

// OpenTransactions describes the transactions that have not ended, by what each broker coordinates. A broker that does
// not answer is described too.
func (c *Client) OpenTransactions() (found []string) {
	request := sarama.NewListTransactionsRequest(sarama.MaxVersion)
	request.StateFilters = []string{sarama.TransactionStateOngoing, sarama.TransactionStatePrepareCommit, sarama.TransactionStatePrepareAbort, sarama.TransactionStatePrepareEpochFence}
	for _, address := range c.seeds {
		answer, err := call(c, address, func(b *sarama.Broker) (*sarama.ListTransactionsResponse, error) { return b.ListTransactions(request) })
		if err == nil && answer.ErrorCode != sarama.ErrNoError {
			err = answer.ErrorCode
		}
		if err != nil {
			found = append(found, fmt.Sprintf("%s: its transactions are not known: %v", address, err))
			continue
		}
		for _, t := range answer.TransactionStates {
			found = append(found, fmt.Sprintf("%s: %s of producer %d at %s", t.TransactionState, t.TransactionalID, t.ProducerID, address))
		}
	}
	return found
}
