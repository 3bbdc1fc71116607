/*
 * RED and CoDel of core-c/src/network beside those of ns-3, with the same packets.
 *
 *   queues DISCIPLINE ECN GENTLE LOAD SECONDS SEED
 *
 * Packets of 1000 bytes come to a link of 10 Mbit/s at Poisson times, with LOAD times the link's rate in the odd seconds and
 * half of that in the even ones, so that queues build up and drain. Prints a line of JSON: packets, the fates in both queues
 * counted, with those of packets that found at most one other waiting (`short`), how many packets have the same fate in
 * both, and the mean delay of those that passed.
 */
#include <ns3/core-module.h>
#include <ns3/network-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "ours.h"

using namespace ns3;

namespace {

constexpr uint32_t PACKET_BYTES = 1000;
constexpr int64_t PACKET_NS = 800000;
constexpr uint32_t LIMIT_PACKETS = 500;
constexpr uint32_t MIN_PACKETS = 10, MAX_PACKETS = 40;
constexpr double PROBABILITY = 0.1;
constexpr uint8_t WEIGHT_SHIFT = 9;

class Item : public QueueDiscItem
{
  public:
    Item(Ptr<Packet> packet, uint64_t number, bool ecn, std::vector<fate>& fates)
        : QueueDiscItem(packet, Address(), 0), number(number), m_ecn(ecn), m_fates(fates)
    {
    }

    void AddHeader() override {}

    bool Mark() override
    {
        if (m_ecn)
        {
            m_fates[number] = FATE_MARKED;
        }
        return m_ecn;
    }

    const uint64_t number;

  private:
    bool m_ecn;
    std::vector<fate>& m_fates;
};

/* A queue with the link behind it. */
class Server
{
  public:
    explicit Server(size_t packets) : fates(packets, FATE_PASSED), m_came(packets) {}

    virtual ~Server() = default;

    void Come(uint64_t number)
    {
        m_came[number] = Simulator::Now();
        bool few = Waiting() <= 1;
        Put(number);
        m_short += few && fates[number] != FATE_PASSED;
        if (!m_busy)
        {
            Free();
        }
    }

    double MeanDelayMs() const { return m_passed ? m_delay.GetSeconds() * 1e3 / m_passed : 0; }

    /* Marked or dropped as they came, with at most one packet waiting. */
    uint64_t Short() const { return m_short; }

    std::vector<fate> fates;

  protected:
    virtual uint32_t Waiting() const = 0;
    virtual void Put(uint64_t number) = 0;
    /* The next packet to send; false: none. */
    virtual bool Take(uint64_t& number) = 0;

  private:
    void Free()
    {
        uint64_t number;
        m_busy = Take(number);
        if (m_busy)
        {
            m_passed++;
            m_delay += Simulator::Now() - m_came[number];
            Simulator::Schedule(NanoSeconds(PACKET_NS), &Server::Free, this);
        }
    }

    std::vector<Time> m_came;
    Time m_delay;
    uint64_t m_passed = 0, m_short = 0;
    bool m_busy = false;
};

class Ours : public Server
{
  public:
    Ours(size_t packets, const ours_settings& settings) : Server(packets), m_queue(ours_open(&settings))
    {
        if (!m_queue)
        {
            std::abort();
        }
    }

    ~Ours() override { ours_close(m_queue); }

  private:
    uint32_t Waiting() const override { return ours_waiting(m_queue); }

    void Put(uint64_t number) override
    {
        fates[number] = ours_put(m_queue, Simulator::Now().GetNanoSeconds(), number);
    }

    bool Take(uint64_t& number) override
    {
        enum fate fate;
        while (ours_take(m_queue, Simulator::Now().GetNanoSeconds(), &number, &fate))
        {
            fates[number] = fate;
            if (fate != FATE_DROPPED)
            {
                return true;
            }
        }
        return false;
    }

    ours* m_queue;
};

class Theirs : public Server
{
  public:
    Theirs(size_t packets, Ptr<QueueDisc> queue, bool ecn) : Server(packets), m_queue(queue), m_ecn(ecn)
    {
        m_queue->Initialize();
        m_queue->TraceConnectWithoutContext("Drop", MakeCallback(&Theirs::Dropped, this));
    }

  private:
    uint32_t Waiting() const override { return m_queue->GetNPackets(); }

    void Dropped(Ptr<const QueueDiscItem> item)
    {
        fates[DynamicCast<const Item>(item)->number] = FATE_DROPPED;
    }

    void Put(uint64_t number) override
    {
        m_queue->Enqueue(Create<Item>(Create<Packet>(PACKET_BYTES), number, m_ecn, fates));
    }

    bool Take(uint64_t& number) override
    {
        Ptr<QueueDiscItem> item = m_queue->Dequeue();
        if (item)
        {
            number = DynamicCast<Item>(item)->number;
        }
        return item != nullptr;
    }

    Ptr<QueueDisc> m_queue;
    bool m_ecn;
};

std::vector<int64_t> Arrivals(double load, double seconds, uint64_t seed)
{
    std::mt19937_64 random(seed);
    std::vector<int64_t> times;
    double now = 0;
    while (true)
    {
        double present = static_cast<int64_t>(now / 1e9) % 2 ? load : load / 2;
        now += std::exponential_distribution<double>(present / PACKET_NS)(random);
        if (now >= seconds * 1e9)
        {
            return times;
        }
        times.push_back(static_cast<int64_t>(now));
    }
}

Ptr<QueueDisc> Red(bool ecn, bool gentle)
{
    Ptr<RedQueueDisc> red = CreateObject<RedQueueDisc>();
    red->SetAttribute("MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, LIMIT_PACKETS)));
    red->SetAttribute("MinTh", DoubleValue(MIN_PACKETS));
    red->SetAttribute("MaxTh", DoubleValue(MAX_PACKETS));
    red->SetAttribute("LInterm", DoubleValue(1 / PROBABILITY));
    red->SetAttribute("QW", DoubleValue(1.0 / (1 << WEIGHT_SHIFT)));
    red->SetAttribute("Gentle", BooleanValue(gentle));
    red->SetAttribute("Wait", BooleanValue(false)); // distances from 1 to 1/p, as in section 7 of the paper
    red->SetAttribute("UseEcn", BooleanValue(ecn));
    red->SetAttribute("UseHardDrop", BooleanValue(true)); // beyond the upper threshold, as RFC 3168 says
    red->SetAttribute("MeanPktSize", UintegerValue(PACKET_BYTES));
    red->SetAttribute("LinkBandwidth", DataRateValue(DataRate(PACKET_BYTES * 8ull * 1000000000 / PACKET_NS)));
    return red;
}

Ptr<QueueDisc> CoDel(bool ecn)
{
    Ptr<CoDelQueueDisc> codel = CreateObject<CoDelQueueDisc>();
    codel->SetAttribute("MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, LIMIT_PACKETS)));
    codel->SetAttribute("UseEcn", BooleanValue(ecn));
    codel->SetAttribute("MinBytes", UintegerValue(1501)); // 1500 bytes are never too many
    return codel;
}

uint64_t Count(const Server& server, fate wanted)
{
    uint64_t found = 0;
    for (fate f : server.fates)
    {
        found += f == wanted;
    }
    return found;
}

void Print(const char* name, const Server& server)
{
    std::printf("\"%s\": {\"dropped\": %lu, \"marked\": %lu, \"short\": %lu, \"delay_ms\": %.6f}, ", name,
                static_cast<unsigned long>(Count(server, FATE_DROPPED)),
                static_cast<unsigned long>(Count(server, FATE_MARKED)), static_cast<unsigned long>(server.Short()),
                server.MeanDelayMs());
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 7)
    {
        std::fprintf(stderr, "usage: queues red|codel ECN GENTLE LOAD SECONDS SEED\n");
        return 2;
    }
    bool codel = !std::strcmp(argv[1], "codel"), ecn = std::atoi(argv[2]), gentle = std::atoi(argv[3]);
    uint64_t seed = std::strtoull(argv[6], nullptr, 10);
    std::vector<int64_t> arrivals = Arrivals(std::atof(argv[4]), std::atof(argv[5]), seed);
    RngSeedManager::SetSeed(seed + 1);
    ours_settings settings{};
    settings.codel = codel;
    settings.ecn = ecn;
    settings.gentle = gentle;
    settings.limit_packets = LIMIT_PACKETS;
    settings.packet_bytes = PACKET_BYTES;
    settings.packet_ns = PACKET_NS;
    settings.seed = seed;
    settings.min_packets = MIN_PACKETS;
    settings.max_packets = MAX_PACKETS;
    settings.probability = PROBABILITY;
    settings.weight_shift = WEIGHT_SHIFT;
    Ours ours(arrivals.size(), settings);
    Theirs theirs(arrivals.size(), codel ? CoDel(ecn) : Red(ecn, gentle), ecn);
    for (uint64_t i = 0; i < arrivals.size(); i++)
    {
        Simulator::Schedule(NanoSeconds(arrivals[i]), [&ours, &theirs, i] {
            ours.Come(i);
            theirs.Come(i);
        });
    }
    Simulator::Run();
    uint64_t same = 0;
    for (size_t i = 0; i < arrivals.size(); i++)
    {
        same += ours.fates[i] == theirs.fates[i];
    }
    std::printf("{\"packets\": %zu, ", arrivals.size());
    Print("ours", ours);
    Print("ns3", theirs);
    std::printf("\"same\": %lu}\n", static_cast<unsigned long>(same));
    Simulator::Destroy();
    return 0;
}
