package wire

import (
	"errors"
	"fmt"
	"slices"

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

// offsetsTopic is where groups keep their offsets. A transaction has a partition of it from AddOffsets on.
const offsetsTopic = "__consumer_offsets"

// InCommit are the transactional ids, of those that are wanted, whose transactions hold offsets, or are about to, and which
// nobody has asked to end yet. An error says that a broker has not answered; the ids are then those of the others.
func (c *Client) InCommit(wanted func(id string) bool) (found []string, err error) {
	for _, address := range c.seeds {
		ids, failed := c.inCommit(address, wanted)
		found, err = append(found, ids...), errors.Join(err, failed)
	}
	return found, err
}

func (c *Client) inCommit(address string, wanted func(id string) bool) (found []string, err error) {
	list := sarama.NewListTransactionsRequest(sarama.MaxVersion)
	list.StateFilters = []string{sarama.TransactionStateOngoing}
	listed, err := call(c, address, func(b *sarama.Broker) (*sarama.ListTransactionsResponse, error) { return b.ListTransactions(list) })
	if err != nil {
		return nil, err
	}
	describe := &sarama.DescribeTransactionsRequest{}
	for _, t := range listed.TransactionStates {
		if wanted(t.TransactionalID) {
			describe.TransactionalIDs = append(describe.TransactionalIDs, t.TransactionalID)
		}
	}
	if len(describe.TransactionalIDs) == 0 {
		return nil, nil
	}
	answer, err := call(c, address, func(b *sarama.Broker) (*sarama.DescribeTransactionsResponse, error) {
		return b.DescribeTransactions(describe)
	})
	if err != nil {
		return nil, err
	}
	for _, t := range answer.TransactionStates {
		if holdsOffsets(t) {
			found = append(found, t.TransactionalID)
		}
	}
	return found, nil
}

func holdsOffsets(t sarama.TransactionState) bool {
	return t.TransactionState == sarama.TransactionStateOngoing &&
		slices.ContainsFunc(t.Topics, func(in sarama.DescribeTransactionsResponseTopic) bool { return in.Topic == offsetsTopic })
}
